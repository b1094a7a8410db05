-- A small HTTP/1.1 client over a Unix socket. It never blocks: a callback gets the response in the main loop.
local uv = vim.uv or vim.loop
local M = {}

M.MAX_BYTES = 1024 * 1024 -- of a response

-- Like `assert`, which would put this file's name before the text that the learner reads.
local function expect(sound, text)
  if not sound then
    error(text, 0)
  end
end

-- The content of a chunked body (RFC 9112, section 7.1) from byte `at` on; nil if it is not complete.
local function unchunked(bytes, at)
  local parts = {}
  while true do
    local from, to, size = bytes:find('^(%x+)[^\r\n]*\r\n', at)
    if not from then
      expect(not bytes:find('\r\n', at, true), 'a chunk without a size')
      return nil
    end
    size = tonumber(size, 16)
    if size == 0 then
      -- Trailers end with an empty line; if there are none, the empty line is here.
      local ended = bytes:sub(to + 1, to + 2) == '\r\n' or bytes:find('\r\n\r\n', to + 1, true)
      return ended and table.concat(parts) or nil
    end
    local after = to + size
    if #bytes < after + 2 then
      return nil
    end
    expect(bytes:sub(after + 1, after + 2) == '\r\n', 'a chunk longer than its size')
    parts[#parts + 1] = bytes:sub(to + 1, after)
    at = after + 3
  end
end

-- `bytes` as { status, body }; nil if the response is not complete. `ended`: the server has closed the connection.
-- Raises a text if `bytes` are not HTTP.
function M.parse(bytes, ended)
  local at, status, head = 1, nil, nil
  repeat -- interim responses (1xx) come before the final one
    local stop, last = bytes:find('\r\n\r\n', at, true)
    if not stop then
      expect(not ended, 'it closed before a response')
      return nil
    end
    head = bytes:sub(at, stop + 1)
    status = tonumber(head:match('^HTTP/1%.%d (%d%d%d)'))
    expect(status, 'the response is not HTTP/1.1')
    at = last + 1
  until status >= 200
  local function field(name)
    return head:lower():match('\n' .. name:gsub('%-', '%%-') .. ':%s*([^\r\n]*)')
  end
  local body, length = nil, tonumber(field('content-length'))
  if (field('transfer-encoding') or ''):find('chunked', 1, true) then
    body = unchunked(bytes, at)
  elseif length then
    body = #bytes >= at - 1 + length and bytes:sub(at, at - 1 + length) or nil
  elseif status == 204 or ended then
    body = bytes:sub(at)
  end
  expect(body or not ended, 'it closed in mid-response')
  return body and { status = status, body = body } or nil
end

local function message(method, path, body)
  local lines = { method .. ' ' .. path .. ' HTTP/1.1', 'Host: localhost', 'Accept: application/json', 'Connection: close' }
  if body then
    vim.list_extend(lines, { 'Content-Type: application/json', 'Content-Length: ' .. #body })
  end
  return table.concat(lines, '\r\n') .. '\r\n\r\n' .. (body or '')
end

-- Send `request` = { method, path, body (JSON text or nil), seconds } to `socket`. `done(problem, response)` is called
-- once, in the main loop, with a text that says what failed, or with nil and { status, body }.
function M.ask(socket, request, done)
  local pipe, timer = uv.new_pipe(false), uv.new_timer()
  local received, finished = '', false

  local function finish(problem, response)
    if finished then
      return
    end
    finished = true
    timer:close()
    pipe:close()
    vim.schedule(function()
      done(problem, response)
    end)
  end

  local function take(data)
    received = received .. (data or '')
    if #received > M.MAX_BYTES then
      return finish('the response is too long')
    end
    local sound, response = pcall(M.parse, received, data == nil)
    if not sound then
      return finish(tostring(response))
    elseif response then
      finish(nil, response)
    end
  end

  timer:start(request.seconds * 1000, 0, function()
    finish(('no response within %d s'):format(request.seconds))
  end)
  pipe:connect(socket, function(failure)
    if failure or finished then
      return finish(failure)
    end
    pipe:read_start(function(broken, data)
      if broken then
        return finish(broken)
      end
      take(data)
    end)
    pipe:write(message(request.method, request.path, request.body), function(broken)
      if broken then
        finish(broken)
      end
    end)
  end)
end

return M
