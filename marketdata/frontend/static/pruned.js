// Requests where ticks were removed. Candles of a second and trades end at the line of the symbol, which a refusal names.

// Answers a refused query {startTime, endTime, …} with what is above the line, or with null if nothing is. Keeps the line in
// `known.line`. Throws any other failure.
export async function above(known, query, send, failure) {
  const line = failure.prunedUntil;
  if (line === undefined) throw failure;
  known.line = line;
  return new Date(query.startTime) < line && !(query.endTime < line) ? send({ ...query, startTime: line }) : null;
}
