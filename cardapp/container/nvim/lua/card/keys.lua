-- Binds the editor keys of the keyboard table, which only the application has (GET /api/keyboard, scope "editor"). No key
-- is bound until the application answers. The request is repeated at growing intervals, so Neovim and the application
-- may start in any order. `:CardKeys` shows the bound keys, or why there are none.
local http = require('card.http')
local uv = vim.uv or vim.loop
local M = {}

local TABLE_SECONDS = 5
local ACTION_SECONDS = 150 -- longer than the time limit of a replay
local FIRST_RETRY, LAST_RETRY = 250, 4000 -- ms

local MODES = { 'n', 'x', 'i', 't' }
local MODIFIERS = { Ctrl = 'C', Alt = 'M', Shift = 'S' }
local NAMES = {
  ArrowLeft = 'Left', ArrowRight = 'Right', ArrowUp = 'Up', ArrowDown = 'Down',
  Backtick = '`', Enter = 'CR', Escape = 'Esc',
} -- stylua: ignore

local function place(answer)
  local seen = type(answer.observed) == 'table' and answer.observed or {}
  if type(seen.file) == 'string' and type(seen.line) == 'number' then
    return ('%s at %s:%d'):format(answer.state, seen.file, seen.line)
  end
  return answer.state
end

-- The request of each action, and how its response is shown. Other actions of the table belong to the page.
local ACTIONS = {
  sync = { path = '/api/navigation/sync', tell = place },
  reset = {
    path = '/api/editor/reset',
    tell = function(answer)
      return answer.debugger_restarted == true and 'done, with a new debugger' or 'done'
    end,
  },
  redraw = {
    path = '/api/editor/redraw',
    tell = function(answer)
      return ('%d x %d'):format(answer.grid.cols, answer.grid.rows)
    end,
  },
  previous = { path = '/api/navigation/move', body = { delta = -1 } },
  next = { path = '/api/navigation/move', body = { delta = 1 } },
}
local function position(answer)
  local ends = { first = ' (the first)', last = ' (the last)' }
  return answer.key .. (ends[answer.at_end] or '')
end
ACTIONS.previous.tell, ACTIONS.next.tell = position, position

local bound, problem = {}, 'the application has not answered yet'
local retry, delay
local latest = {} -- action -> number of its newest request, the only one whose response is shown

-- Show one line, cut so that Neovim does not prompt for a key, and keep it out of :messages.
local function show(text, highlight)
  if vim.fn.getcmdtype() ~= '' then -- the learner types in this line
    return vim.api.nvim_create_autocmd('CmdlineLeave', {
      once = true,
      callback = vim.schedule_wrap(function()
        show(text, highlight)
      end),
    })
  end
  local room = vim.o.cmdheight > 0 and vim.v.echospace or 0
  local whole = ('card: ' .. text):gsub('%c+', ' ')
  local line, length = whole, math.min(room, vim.fn.strchars(whole))
  while vim.fn.strdisplaywidth(line) > room and length > 0 do
    length = length - 1
    line = vim.fn.strcharpart(whole, 0, length) .. '…'
  end
  if vim.fn.strdisplaywidth(line) <= room then
    vim.api.nvim_echo({ { line, highlight } }, false, {})
  end
end

local function decoded(response)
  local sound, answer = pcall(vim.json.decode, response.body)
  return sound and type(answer) == 'table' and answer or {}
end

-- Why a request failed: the sentence of the problem body (RFC 9457), if there is one.
local function refusal(response)
  local answer = decoded(response)
  for _, name in ipairs({ 'detail', 'title' }) do
    if type(answer[name]) == 'string' then
      return answer[name]
    end
  end
  return ('the application answered with status %d'):format(response.status)
end

local function ask(method, path, body, seconds, done)
  local socket = vim.env.CARD_API_SOCKET
  local request = { method = method, path = path, body = body and vim.json.encode(body), seconds = seconds }
  http.ask(socket, request, function(failure, response)
    if failure then
      -- The important part first: a narrow line cuts the rest.
      done(('no application (%s): start it with bin/cardapp serve; asked at %s'):format(failure, socket))
    elseif response.status ~= 200 then
      done(refusal(response))
    else
      done(nil, decoded(response))
    end
  end)
end

-- Send the request of `action` and show the result.
function M.run(action)
  local what = ACTIONS[action]
  local number = (latest[action] or 0) + 1
  latest[action] = number
  show(action .. ' …')
  local body = vim.tbl_extend('error', { actor = 'editor' }, what.body or {})
  ask('POST', what.path, body, ACTION_SECONDS, function(failure, answer)
    if latest[action] ~= number then
      return
    elseif failure then
      return show(action .. ': ' .. failure, 'WarningMsg')
    end
    local sound, told = pcall(what.tell, answer)
    show(action .. ': ' .. (sound and type(told) == 'string' and told or 'done'))
  end)
end

-- A key of the table (`Ctrl+Backtick`) in Neovim's notation (<C-`>); nil if a modifier is unknown.
function M.notation(keys)
  local parts = vim.split(keys, '+', { plain = true })
  local name = table.remove(parts)
  local prefix = ''
  for _, part in ipairs(parts) do
    if not MODIFIERS[part] then
      return nil
    end
    prefix = prefix .. MODIFIERS[part] .. '-'
  end
  return '<' .. prefix .. (NAMES[name] or name) .. '>'
end

local function map(shortcut)
  for _, keys in ipairs(shortcut.keys) do
    local notation = M.notation(keys)
    -- Most terminals send the same byte for Ctrl+` and Ctrl+Space. Neovim calls it <C-Space>.
    for _, lhs in ipairs(notation == '<C-`>' and { notation, '<C-Space>' } or { notation }) do
      vim.keymap.set(MODES, lhs, function()
        M.run(shortcut.action)
      end, { desc = 'card: ' .. shortcut.description })
      bound[#bound + 1] = { lhs = lhs, action = shortcut.action, description = shortcut.description }
    end
  end
end

-- Replace the bound keys by the editor's keys of the table; raises if it is not a keyboard table.
local function bind(keyboard)
  assert(type(keyboard.shortcuts) == 'table', 'GET /api/keyboard answered without shortcuts')
  for _, old in ipairs(bound) do
    pcall(vim.keymap.del, MODES, old.lhs)
  end
  bound = {}
  for _, shortcut in ipairs(keyboard.shortcuts) do
    if shortcut.scope == 'editor' and ACTIONS[shortcut.action] then
      map(shortcut)
    end
  end
end

-- Get the table; try again later if that fails.
local function load()
  if (vim.env.CARD_API_SOCKET or '') == '' then
    problem = 'CARD_API_SOCKET is not set in this Neovim, so the application cannot be found'
    return
  end
  ask('GET', '/api/keyboard', nil, TABLE_SECONDS, function(failure, keyboard)
    local sound, reason = true, failure
    if not failure then
      sound, reason = pcall(bind, keyboard)
    end
    problem = (failure or not sound) and reason or nil
    if problem then
      retry:start(delay, 0, vim.schedule_wrap(load))
      delay = math.min(delay * 2, LAST_RETRY)
    end
  end)
end

-- The bound keys as { lhs, action, description } in the table's order, and why there are none, or nil.
function M.status()
  return bound, problem
end

function M.setup()
  retry = retry or uv.new_timer()
  retry:stop()
  delay = FIRST_RETRY
  vim.api.nvim_create_user_command('CardKeys', function()
    if problem then
      return show('no keys are bound: ' .. problem, 'WarningMsg')
    end
    local parts = {}
    for _, key in ipairs(bound) do
      parts[#parts + 1] = key.lhs .. ' ' .. key.action
    end
    show(table.concat(parts, ', '))
  end, { desc = "Show the card application's keys", force = true })
  load()
end

return M
