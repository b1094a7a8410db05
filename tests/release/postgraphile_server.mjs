// PostGraphile serves the schema public of a database at /graphql, on a free port of loopback. PGHOST, PGUSER,
// PGPASSWORD and PGDATABASE name the database. The program prints the port on a separate line.
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
