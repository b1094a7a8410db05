-- A small asynchronous HTTP/1.1 client for a Unix socket; a callback in the main loop gets the response.
local uv = vim.uv or vim.loop
local M = {}

M.LARGEST = 8 * 1024 * 1024 -- bytes of a response: the catalog of a card of 2 000 steps has 1.5 MB

-- `assert` would put the file name before the message, which is shown to the user.
local function expect(sound, text)
  if not sound then
    error(text, 0)
  end
end

-- Decode a chunked body (RFC 9112, section 7.1) that begins at byte `at`; nil while it is incomplete.
local function unchunked(bytes, at)
  local parts = {}
  while true do
    local from, to, size = bytes:find('^(%x+)[^\r\n]*\r\n', at)
    if not from then
      expect(not bytes:find('\r\n', at, true), 'the response has a chunk without a size')
      return nil
    end
    size = tonumber(size, 16)
    if size == 0 then
      -- Trailer fields end with an empty line; without any, the empty line follows at once.
      local ended = bytes:sub(to + 1, to + 2) == '\r\n' or bytes:find('\r\n\r\n', to + 1, true)
      return ended and table.concat(parts) or nil
    end
    local after = to + size
    if #bytes < after + 2 then
      return nil
    end
    expect(bytes:sub(after + 1, after + 2) == '\r\n', 'the response has a chunk that is longer than its size')
    parts[#parts + 1] = bytes:sub(to + 1, after)
    at = after + 3
  end
end

-- Parse `bytes` to { status, body }; nil while incomplete. `ended`: no more bytes follow. Raises a message on a fault.
function M.parse(bytes, ended)
  local at, status, head = 1, nil, nil
  repeat -- interim responses (1xx) precede the final one
    local stop, last = bytes:find('\r\n\r\n', at, true)
    if not stop then
      expect(not ended, 'closed without a response')
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
  expect(body or not ended, 'incomplete response')
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
-- once, in the main loop: with an error message, or with nil and { status, body }.
function M.request(socket, request, done)
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
    if #received > M.LARGEST then
      return finish('the response is larger than 8 MiB')
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
