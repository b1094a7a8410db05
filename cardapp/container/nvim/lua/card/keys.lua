-- The editor's key mappings, made from the application's table of shortcuts (GET /api/keyboard, scope "editor"). No key
-- is mapped until the application answers. The request is repeated at growing intervals, so that editor and application
-- may start in either order. `:CardKeys` shows the mappings, or why there are none.
local http = require('card.http')
local uv = vim.uv or vim.loop
local M = {}

local TABLE_SECONDS = 5
local ACTION_SECONDS = 150 -- longer than the time limit of any replay
local FIRST_RETRY, LAST_RETRY = 250, 4000 -- ms; a failing connect takes microseconds

local MODES = { 'n', 'x', 'i', 't' }
local MODIFIERS = { Ctrl = 'C', Alt = 'M', Shift = 'S' }
local NAMES = {
  ArrowLeft = 'Left', ArrowRight = 'Right', ArrowUp = 'Up', ArrowDown = 'Down',
  Backtick = '`', Enter = 'CR', Escape = 'Esc',
} -- stylua: ignore

local function place(answer)
  local observed = type(answer.observed) == 'table' and answer.observed or {}
  if type(observed.file) == 'string' and type(observed.line) == 'number' then
    return ('%s at %s:%d'):format(answer.state, observed.file, observed.line)
  end
  return answer.state
end

-- The request of each action, and a function that describes its response. Actions that are not listed concern only the
-- page.
local ACTIONS = {
  sync = { path = '/api/navigation/sync', describe = place },
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
  previous = { path = '/api/navigation/move', body = { delta = -1 } },
  next = { path = '/api/navigation/move', body = { delta = 1 } },
}
local function position(answer)
  local ends = { first = ' (the first)', last = ' (the last)' }
  return answer.key .. (ends[answer.at_end] or '')
end
ACTIONS.previous.describe, ACTIONS.next.describe = position, position

local bound, problem = {}, 'the table of shortcuts was not loaded yet'
local retry, delay
local latest = {} -- action -> number of its latest request; results of earlier ones are not shown

-- Show one line, shortened so that Neovim shows no hit-enter prompt, and not added to :messages.
local function show(text, highlight)
  if vim.fn.getcmdtype() ~= '' then -- the user is typing a command
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

-- The error message of a response: from its problem body (RFC 9457), or else its status.
local function refusal(response)
  local answer = decoded(response)
  for _, name in ipairs({ 'detail', 'title' }) do
    if type(answer[name]) == 'string' then
      return answer[name]
    end
  end
  return ('the application responded with status %d'):format(response.status)
end

local function send(method, path, body, seconds, done)
  local socket = vim.env.CARD_API_SOCKET
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

-- Send the request of `action` and show the result.
function M.run(action)
  local what = ACTIONS[action]
  local number = (latest[action] or 0) + 1
  latest[action] = number
  show(action .. ' …')
  local body = vim.tbl_extend('error', { actor = 'editor' }, what.body or {})
  send('POST', what.path, body, ACTION_SECONDS, function(failure, answer)
    if latest[action] ~= number then
      return
    elseif failure then
      return show(action .. ': ' .. failure, 'WarningMsg')
    end
    local sound, text = pcall(what.describe, answer)
    show(action .. ': ' .. (sound and type(text) == 'string' and text or 'done'))
  end)
end

-- A key of the table (`Ctrl+Backtick`) in Neovim's notation (<C-`>); nil if it has an unknown modifier.
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
    -- Most terminals send the same byte for Ctrl+` and Ctrl+Space, which Neovim reports as <C-Space>.
    for _, lhs in ipairs(notation == '<C-`>' and { notation, '<C-Space>' } or { notation }) do
      vim.keymap.set(MODES, lhs, function()
        M.run(shortcut.action)
      end, { desc = 'card: ' .. shortcut.description })
      bound[#bound + 1] = { lhs = lhs, action = shortcut.action, description = shortcut.description }
    end
  end
end

-- Replace the mappings by the editor's entries of the table; raises if the table is invalid.
local function bind(keyboard)
  assert(type(keyboard.shortcuts) == 'table', 'the response of GET /api/keyboard has no shortcuts')
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

-- Load the table; on an error, try again later.
local function load()
  if (vim.env.CARD_API_SOCKET or '') == '' then
    problem = 'CARD_API_SOCKET is not set in this Neovim, so the application\'s socket is unknown'
    return
  end
  send('GET', '/api/keyboard', nil, TABLE_SECONDS, function(failure, keyboard)
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

-- The mappings as { lhs, action, description } in the table's order; and why there are none, or nil.
function M.status()
  return bound, problem
end

function M.setup()
  retry = retry or uv.new_timer()
  retry:stop()
  delay = FIRST_RETRY
  vim.api.nvim_create_user_command('CardKeys', function()
    if problem then
      return show('no keys are mapped: ' .. problem, 'WarningMsg')
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
