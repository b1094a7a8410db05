from tests.bench import api, replay
from tests.bench.figures import table

print(table([*replay.measure(), *api.measure()]))
