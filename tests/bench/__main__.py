from tests.bench import api, replay, revisit
from tests.bench.figures import table

print(table([*replay.measure(), *revisit.measure(), *api.measure()]))
