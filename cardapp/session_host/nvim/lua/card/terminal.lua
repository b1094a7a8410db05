-- Whether a terminal is attached to the session, which then decides the size of the screen. tmux marks its socket as
-- executable while a terminal is attached. Clients that subscribe to `card_terminal` are notified of every change.
local uv = vim.uv or vim.loop
local M = {}

local EXECUTABLE = tonumber('100', 8)
local socket = vim.split(vim.env.TMUX or '', ',', { plain = true })[1]

-- Tell all subscribers whether a terminal is attached.
function M.tell()
  local found = uv.fs_stat(socket)
  vim.g.card_terminal = found ~= nil and require('bit').band(found.mode, EXECUTABLE) ~= 0
  vim.rpcnotify(0, 'card_terminal', vim.g.card_terminal)
end

function M.setup()
  if socket ~= '' then
    uv.new_fs_event():start(socket, {}, vim.schedule_wrap(M.tell))
    M.tell()
  end
end

return M
