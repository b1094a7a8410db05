// Serves the schema public of the database that PGHOST, PGUSER, PGPASSWORD and PGDATABASE name with PostGraphile, at
// /graphql on a free port of loopback, and writes that port on a line of its own.
import { createServer } from "node:http";
import { grafserv } from "postgraphile/grafserv/node";
import { postgraphile } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { PostGraphileAmberPreset } from "postgraphile/presets/amber";

const { PGHOST: host, PGUSER: user, PGPASSWORD: password, PGDATABASE: database } = process.env;
const reader = makePgService({ poolConfig: { host, user, password, database }, schemas: ["public"] });
const server = createServer();
await postgraphile({ extends: [PostGraphileAmberPreset], pgServices: [reader] })
  .createServ(grafserv)
  .addTo(server);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
