-- The editor's part of the keyboard table. The table lives in the application (GET /api/keyboard, scope "editor") and
-- nowhere else: until the application answers nothing is bound, as a key would have nobody to talk to. It is asked
-- again and again, ever more seldom, so the two may start in either order. `:CardKeys` shows what is bound, or why not.
local http = require('card.http')
local uv = vim.uv or vim.loop
local M = {}

local TABLE_SECONDS = 5
local ACTION_SECONDS = 150 -- a replay ends by its own limit long before
local FIRST_RETRY, LAST_RETRY = 250, 4000 -- ms; a look for a missing socket costs microseconds

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

-- What each action of the table asks of the application, and how its answer reads. An action that is not here is the
-- page's affair.
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

local bound, problem = {}, 'the application was not asked yet'
local retry, delay
local latest = {} -- action -> number of its newest request; only that one may still speak

-- One line, never a prompt: cut to what Neovim shows without asking for a key, and kept out of :messages.
local function show(text, highlight)
  if vim.fn.getcmdtype() ~= '' then -- the line is being typed in
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

-- Why a response is no success: the sentence of its problem body (RFC 9457) if it has one.
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
      -- What matters first: a narrow line cuts the rest.
      done(('no application (%s): start it with bin/cardapp serve; asked at %s'):format(failure, socket))
    elseif response.status ~= 200 then
      done(refusal(response))
    else
      done(nil, decoded(response))
    end
  end)
end

-- Ask the application for `action` of the table and show how it went.
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

-- The table's way to write a key (`Ctrl+Backtick`) in Neovim's (<C-`>); nil for a modifier that is unknown here.
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
    -- Most terminals send the same byte for Ctrl+` and Ctrl+Space, which Neovim calls by the latter name.
    for _, lhs in ipairs(notation == '<C-`>' and { notation, '<C-Space>' } or { notation }) do
      vim.keymap.set(MODES, lhs, function()
        M.run(shortcut.action)
      end, { desc = 'card: ' .. shortcut.description })
      bound[#bound + 1] = { lhs = lhs, action = shortcut.action, description = shortcut.description }
    end
  end
end

-- Replace what is bound by the editor's entries of the table; raises where it is no such table.
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

-- Ask for the table; later again when it could not be had.
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

-- What is bound, as { lhs, action, description } in the table's order; and why nothing could be, or nil.
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
