// Requests where ticks were removed. Candles of a second and trades end at the line of the symbol, which a refusal names.

const MESSAGE = /before (\S+) are pruned/;

// Answers a refused query {startTime, endTime, …} with what is above the line, or with null if nothing is. Keeps the line in
// `known.line`. Throws any other failure.
export async function above(known, query, send, failure) {
  const line = failure.code === 'pruned' ? Date.parse(MESSAGE.exec(failure.message)?.[1]) : NaN;
  if (Number.isNaN(line)) throw failure;
  known.line = line;
  return new Date(query.startTime) < line && !(query.endTime < line) ? send({ ...query, startTime: line }) : null;
}
