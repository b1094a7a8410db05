-- Starts and restarts termdebug in this Neovim, and shows where the program is.
local windows = require('card.windows')
local M = {}

-- gdb reads neither the learner's own configuration nor the C library's debug information. With the debug information
-- each run would take a quarter of a second more, and `step` would enter the library.
local function gdb_command()
  local open = ('python import sys; sys.path.insert(0, %s); from cardapp.session_host.gdb_plugin import channel; channel.open(%s)'):format(
    vim.fn.json_encode(vim.env.CARDAPP_ROOT),
    vim.fn.json_encode(vim.env.CARDAPP_GDB_SOCKET)
  )
  local command = { 'gdb', '-nx' }
  for _, first in ipairs({
    'set confirm off',
    'set debuginfod enabled off',
    'set debug-file-directory /nonexistent',
    'set history save off',
    open,
  }) do
    vim.list_extend(command, { '-iex', first })
  end
  return command
end

-- Start gdb in its window. termdebug waits for gdb's first prompt, about 200 ms.
function M.start()
  vim.g.termdebugger = gdb_command()
  if vim.fn.exists(':Termdebug') == 0 then
    vim.cmd('packadd termdebug')
    vim.cmd('runtime termdebug_overlay.vim')
  end
  M.ready = false
  vim.api.nvim_set_current_win(windows.need_code_window())
  vim.cmd('silent Termdebug')
  windows.learn()
  windows.arrange()
  -- Ctrl-L clears the commands that termdebug sent to gdb at its start.
  vim.fn.chansend(vim.bo[windows.gdb].channel, '\12')
  M.ready = true
end

-- Put all three windows in their places.
function M.tidy()
  windows.keep_focus(function()
    windows.need_code_window()
    windows.arrange()
  end)
end

function M.is_ready()
  return M.ready
end

-- End gdb, if it still runs, and start a new one. The code windows and their unsaved changes stay.
function M.restart()
  for _, channel in ipairs(vim.api.nvim_list_chans()) do
    if channel.buffer == windows.gdb or table.concat(channel.argv or {}, ' '):find('#gdb communication', 1, true) then
      vim.fn.jobstop(channel.id)
    end
  end
  windows.keep_focus(function()
    -- jobstop kills a gdb that ignores SIGHUP and SIGTERM after 4 s; the caller waits 15 s.
    vim.wait(10000, function()
      return vim.fn.exists(':Gdb') == 0
    end, 10)
    for _, buffer in pairs({ windows.gdb, windows.program }) do
      vim.cmd('silent! bwipeout! ' .. buffer)
    end
    M.start()
  end)
end

local function buffer_of(file)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_get_name(buffer) == file then
      return buffer
    end
  end
end

-- The PC signs of a buffer, in any group (see termdebug_overlay.vim).
local function signs(buffer)
  local placed = vim.fn.sign_getplaced(buffer, { group = '*' })[1]
  return vim.tbl_filter(function(sign)
    return sign.name == 'debugPC'
  end, placed and placed.signs or {})
end

local function has_sign(buffer, line)
  for _, sign in ipairs(signs(buffer)) do
    if sign.lnum == line then
      return true
    end
  end
  return false
end

-- Whether a window shows `file` with the PC sign and the cursor on `line`.
function M.shows(file, line)
  local buffer = buffer_of(file)
  if not buffer or not has_sign(buffer, line) then
    return false
  end
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    if vim.api.nvim_win_get_cursor(window)[1] == line then
      windows.follow_output()
      return true
    end
  end
  return false
end

local function show(file, line)
  vim.api.nvim_set_current_win(windows.need_code_window())
  if vim.api.nvim_buf_get_name(0) ~= file then
    vim.cmd('silent edit ' .. vim.fn.fnameescape(file))
  end
  vim.api.nvim_win_set_cursor(0, { math.min(line, vim.api.nvim_buf_line_count(0)), 0 })
  vim.cmd('normal! zvzz')
  if not has_sign(vim.api.nvim_get_current_buf(), line) then
    M.unmark()
    local place = { lnum = line, priority = 110 }
    vim.fn.sign_place(12, vim.g.card_sign_group or '', 'debugPC', vim.api.nvim_get_current_buf(), place)
  end
end

-- Show `file` with the PC sign and the cursor on `line`. Used if termdebug does not do so.
function M.show(file, line)
  windows.keep_focus(function()
    show(file, line)
  end)
end

M.output = windows.output
M.printed = windows.printed

-- Remove the PC sign.
function M.unmark()
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    for _, sign in ipairs(signs(buffer)) do
      vim.fn.sign_unplace(sign.group, { buffer = buffer, id = sign.id })
    end
  end
end

-- Reload files that changed on disk and have no unsaved changes.
function M.reload()
  vim.cmd('silent! checktime')
end

-- Remove the PC sign, and reload changed files.
function M.clear()
  M.unmark()
  M.reload()
end

return M
