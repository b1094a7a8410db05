from tests.bench import replay
from tests.bench.figures import table

print(table(replay.measure()))
