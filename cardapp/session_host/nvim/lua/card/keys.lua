-- The editor's key mappings, made from the application's table of shortcuts (GET /api/keyboard, scope "editor"). No key
-- is mapped until the application answers. The request is repeated, because editor and application may start in either
-- order, and the application refuses a container until its session is chosen. `:CardKeys` shows the mappings, or why there are none.
local actions = require('card.actions')
local api = require('card.api')
local message = require('card.message')
local uv = vim.uv or vim.loop
local M = {}

local TABLE_SECONDS = 5
local RETRY = 250 -- ms; the keys work at most half a second after the session was chosen

local MODES = { 'n', 'x', 'i', 't' }
local MODIFIERS = { Ctrl = 'C', Alt = 'M', Shift = 'S' }
local NAMES = {
  ArrowLeft = 'Left', ArrowRight = 'Right', ArrowUp = 'Up', ArrowDown = 'Down',
  Backtick = '`', Enter = 'CR', Escape = 'Esc',
} -- stylua: ignore

local bound, problem = {}, 'the table of shortcuts was not loaded yet'
local retry

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
        actions.run(shortcut.action)
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
    if shortcut.scope == 'editor' and actions.known[shortcut.action] then
      map(shortcut)
    end
  end
end

-- Load the table; on an error, try again later.
local function load()
  local socket, unknown = api.socket()
  if not socket then
    problem = unknown
    return
  end
  api.request('GET', '/api/keyboard', nil, TABLE_SECONDS, function(failure, keyboard)
    local sound, reason = true, failure
    if not failure then
      sound, reason = pcall(bind, keyboard)
    end
    problem = (failure or not sound) and reason or nil
    if problem then
      retry:start(RETRY, 0, vim.schedule_wrap(load))
    end
  end)
end

-- Return the mappings as { lhs, action, description } in the table's order; and why there are none, or nil.
function M.status()
  return bound, problem
end

-- Show the mappings, or why there are none.
function M.show()
  if problem then
    return message.show('no keys are mapped: ' .. problem, 'WarningMsg')
  end
  local parts = {}
  for _, key in ipairs(bound) do
    parts[#parts + 1] = key.lhs .. ' ' .. key.action
  end
  message.show(table.concat(parts, ', '))
end

function M.setup()
  retry = retry or uv.new_timer()
  retry:stop()
  load()
end

return M
