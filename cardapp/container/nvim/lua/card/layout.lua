-- Three windows: the code on the left over the full height; gdb on the right, below it what the program prints.
local M = {}

local function terminal_command(buffer)
  return vim.bo[buffer].buftype == 'terminal' and vim.api.nvim_buf_get_name(buffer) or ''
end

function M.is_program(buffer)
  return terminal_command(buffer):find('#gdb program', 1, true) ~= nil
end

function M.is_gdb(buffer)
  local command = terminal_command(buffer)
  return command:find('gdb', 1, true) ~= nil and command:find('#gdb ', 1, true) == nil
end

-- The first window of this tab page whose buffer `wanted` accepts.
local function window_of(wanted)
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local floating = vim.api.nvim_win_get_config(window).relative ~= ''
    if not floating and wanted(vim.api.nvim_win_get_buf(window)) then
      return window
    end
  end
end

function M.code_window()
  return window_of(function(buffer)
    return vim.bo[buffer].buftype == ''
  end)
end

-- The code window; one is opened where the learner closed them all.
function M.need_code_window()
  local window = M.code_window()
  if not window then
    vim.cmd('topleft vsplit | enew')
    window = vim.api.nvim_get_current_win()
    M.arrange()
  end
  return window
end

-- Put the windows in their places. Windows keep their ids, so termdebug still knows its own.
function M.arrange()
  local code = M.code_window()
  local gdb = window_of(M.is_gdb)
  local program = window_of(M.is_program)
  if code then
    vim.api.nvim_set_current_win(code)
    vim.cmd('wincmd H')
    vim.api.nvim_win_set_width(code, math.floor(vim.o.columns * 0.55))
  end
  if gdb and program then
    vim.api.nvim_win_set_height(gdb, math.floor((vim.o.lines - 4) * 0.6))
  end
  for _, window in pairs({ gdb, program }) do
    vim.wo[window].number = false
    vim.wo[window].signcolumn = 'no'
  end
end

return M
