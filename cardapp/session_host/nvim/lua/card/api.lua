-- Requests to the card application. Every failure becomes one sentence for the learner.
local http = require('card.http')
local M = {}

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
  http.request(socket, request, function(failure, response)
    if failure then
      -- The most important part first: a narrow window cuts off the rest.
      done(('request failed (%s): start bin/cardapp serve; socket: %s'):format(failure, socket))
    elseif response.status ~= 200 then
      done(refusal(response))
    else
      done(nil, decoded(response))
    end
  end)
end

return M
