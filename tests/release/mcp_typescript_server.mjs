// An MCP server made with the reference implementation for TypeScript: `mcp_typescript_server.mjs REVISION [SOCKET]`.
// With the modern REVISION it serves both eras; with any other, only the handshake with that revision. It serves the
// SOCKET, or standard streams without one. The tests copy this file into the folder of the packages.

import net from "node:net";
import { McpServer, fromJsonSchema } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";

const [revision, path] = process.argv.slice(2);
const modern = revision === "2026-07-28";
const options = modern ? {} : { supportedProtocolVersions: [revision] };
const number = { type: "number" };
const both = { type: "object", properties: { a: number, b: number }, required: ["a", "b"] };
const sum = { type: "object", properties: { sum: number }, required: ["sum"] };
const nothing = { type: "object", properties: {} };

function server() {
  const made = new McpServer({ name: "typescript", version: "1" }, { capabilities: { tools: {} }, ...options });
  made.registerTool("add", { inputSchema: fromJsonSchema(both), outputSchema: fromJsonSchema(sum) }, ({ a, b }) => ({
    content: [{ type: "text", text: String(a + b) }],
    structuredContent: { sum: a + b },
  }));
  made.registerTool("fail", { inputSchema: fromJsonSchema(nothing) }, () => {
    throw new Error("no luck");
  });
  made.registerTool("count", { inputSchema: fromJsonSchema(nothing) }, async (_arguments, context) => {
    const progressToken = context.mcpReq._meta?.progressToken;
    for (const progress of [1, 2, 3]) {
      const params = { progressToken, progress, total: 3, message: `step ${progress}` };
      await context.mcpReq.notify({ method: "notifications/progress", params });
    }
    return { content: [] };
  });
  return made;
}

function serve(...streams) {
  const transport = new StdioServerTransport(...streams);
  if (modern) serveStdio(server, { transport });
  else server().connect(transport);
}

if (path === undefined) {
  serve();
} else {
  const listening = net.createServer((end) => {
    listening.close();
    serve(end, end);
  });
  listening.listen(path, () => process.stderr.write("listening\n"));
}
