from tests.bench import api, fork_replay, replay
from tests.bench.figures import table

print(table([*replay.measure(), *fork_replay.measure(), *api.measure()]))
