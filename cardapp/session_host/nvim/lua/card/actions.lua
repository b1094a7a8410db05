-- The actions behind the learner's keys and commands. Each sends a request to the application and shows a message when it
-- begins, and its result or the reason of its failure. Neovim does not wait for the response.
local api = require('card.api')
local message = require('card.message')
local M = {}

local ACTOR = 'editor'
local SECONDS = 150 -- longer than the time limit of any replay
local STAGE_SECONDS, STAGE_PERIOD = 2, 250 -- timeout in seconds; period in ms
local running = {} -- action -> its latest request; results of earlier requests are not shown

local function place(answer)
  local observed = type(answer.observed) == 'table' and answer.observed or {}
  if type(observed.file) == 'string' and type(observed.line) == 'number' then
    return ('%s at %s:%d'):format(answer.state, observed.file, observed.line)
  end
  return answer.state
end

local function position(answer)
  local ends = { first = ' (the first)', last = ' (the last)' }
  return (answer.key == '' and 'the whole card' or answer.key) .. (ends[answer.at_end] or '')
end

-- Each action's request, and a function that describes its response. Actions in the table of shortcuts that are not
-- listed here concern only the page.
M.known = {
  sync = { path = '/api/navigation/sync', describe = place, stages = true },
  cancel = {
    path = '/api/checkpoint/cancel',
    describe = function(answer)
      return answer.last.state == 'cancelled' and 'done' or 'too late, the replay is ' .. answer.last.state
    end,
  },
  reset = {
    path = '/api/editor/reset',
    describe = function(answer)
      return answer.debugger_restarted == true and 'done, with a new debugger' or 'done'
    end,
  },
  redraw = {
    path = '/api/editor/redraw',
    describe = function(answer)
      return ('%d x %d'):format(answer.grid.cols, answer.grid.rows)
    end,
  },
  previous = { path = '/api/navigation/move', body = { delta = -1 }, describe = position },
  next = { path = '/api/navigation/move', body = { delta = 1 }, describe = position },
  move = { path = '/api/navigation/move', describe = position },
  go = { method = 'PUT', path = '/api/navigation/current', describe = position },
}

function M.warn(name, text)
  message.show(name .. ': ' .. text, 'WarningMsg')
end

-- Show each new stage of the replay for which `request` waits.
local function follow(name, request, shown)
  vim.defer_fn(function()
    if running[name] ~= request then
      return
    end
    api.request('GET', '/api/control/state', nil, STAGE_SECONDS, function(failure, control)
      if running[name] ~= request then
        return
      end
      local checkpoint = not failure and control.checkpoint
      local stage = type(checkpoint) == 'table' and checkpoint.state == 'running' and checkpoint.stage or shown
      if stage ~= shown then
        message.show(('%s: %s … (:CardCancel ends it)'):format(name, tostring(stage)))
      end
      follow(name, request, stage)
    end)
  end, STAGE_PERIOD)
end

-- Send `body` as the request of the action `name`. `action` describes the action; the default is M.known[name].
function M.run(name, body, action)
  action = action or M.known[name]
  local request = vim.tbl_extend('force', { actor = ACTOR }, action.body or {}, body or {})
  running[name] = request
  message.show(name .. ' …')
  if action.stages then
    follow(name, request)
  end
  local sent = action.method ~= 'DELETE' and request or nil -- the path of a DELETE names the actor
  api.request(action.method or 'POST', action.path, sent, SECONDS, function(failure, answer)
    if running[name] ~= request then
      return
    end
    running[name] = nil
    if failure then
      return M.warn(name, failure)
    end
    local sound, text = pcall(action.describe, answer)
    message.show(name .. ': ' .. (sound and type(text) == 'string' and text or 'done'))
  end)
end

return M
