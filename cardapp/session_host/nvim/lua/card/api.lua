-- Requests to the card application, over HTTP/1.0 on its Unix socket. Neovim does not wait for the responses. Every
-- failure becomes one sentence for the learner.
local uv = vim.uv or vim.loop
local M = {}

M.MAX_BYTES = 8 * 1024 * 1024 -- of a response; the catalog of a card with 2 000 steps has 1.5 MB

-- Like `assert`, but without the file name before the message, because the learner sees the message.
local function expect(sound, text)
  if not sound then
    error(text, 0)
  end
end

-- Parse `bytes` to { status, body }. Returns nil while they are incomplete, and raises a message if they are invalid.
-- `ended` says that no more bytes follow. A response to HTTP/1.0 has no interim responses and no chunks. The body ends at
-- its Content-Length, or at the end of the connection.
function M.parse(bytes, ended)
  local stop, last = bytes:find('\r\n\r\n', 1, true)
  if not stop then
    expect(not ended, 'closed without a response')
    return nil
  end
  local head = bytes:sub(1, stop + 1)
  local status = tonumber(head:match('^HTTP/1%.%d (%d%d%d)'))
  expect(status, 'the response is not HTTP')
  local function field(name)
    return head:lower():match('\n' .. name:gsub('%-', '%%-') .. ':%s*([^\r\n]*)')
  end
  expect(not field('transfer-encoding'), 'the response is chunked, although the request is HTTP/1.0')
  local length, received = tonumber(field('content-length')), #bytes - last
  if received < (length or 0) or not (length or ended) then
    expect(not ended, 'incomplete response')
    return nil
  end
  return { status = status, body = bytes:sub(last + 1, length and last + length) }
end

local function message(method, path, body)
  local lines = { method .. ' ' .. path .. ' HTTP/1.0', 'Host: localhost', 'Accept: application/json' }
  if body then
    vim.list_extend(lines, { 'Content-Type: application/json', 'Content-Length: ' .. #body })
  end
  return table.concat(lines, '\r\n') .. '\r\n\r\n' .. (body or '')
end

-- Send `request` = { method, path, body (JSON text or nil), seconds } to `socket`. `done(problem, response)` is called
-- once, in the main loop: with an error message, or with nil and { status, body }.
local function exchange(socket, request, done)
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

-- -- the application's answers -------------------------------------------------------------------------------------

local function decoded(response)
  local sound, answer = pcall(vim.json.decode, response.body, { luanil = { object = true, array = true } })
  return sound and type(answer) == 'table' and answer or {}
end

-- The error message of a response, from its problem body (RFC 9457), else from its status.
local function refusal(response)
  local answer = decoded(response)
  for _, name in ipairs({ 'detail', 'title' }) do
    if type(answer[name]) == 'string' then
      return answer[name]
    end
  end
  return ('the application responded with status %d'):format(response.status)
end

-- The path of the application's socket; nil and the reason if it is unknown.
function M.socket()
  local socket = vim.env.CARD_API_SOCKET or ''
  if socket == '' then
    return nil, 'CARD_API_SOCKET is not set in this Neovim, so the application\'s socket is unknown'
  end
  return socket
end

-- `done(failure, answer)` is called once, in the main loop: with a sentence, or with nil and the decoded response.
function M.request(method, path, body, seconds, done)
  local socket, unknown = M.socket()
  if not socket then
    return done(unknown)
  end
  local request = { method = method, path = path, body = body and vim.json.encode(body), seconds = seconds }
  exchange(socket, request, function(failure, response)
    if failure then
      -- The most important part comes first, because a narrow window cuts off the rest.
      done(('request failed (%s): start bin/cardapp serve; socket: %s'):format(failure, socket))
    elseif response.status ~= 200 and response.status ~= 201 then
      done(refusal(response))
    else
      done(nil, decoded(response))
    end
  end)
end

return M
