-- Three windows: the code on the left; gdb on the right, with the program's output below it. On a narrow screen the code
-- is on top, and the others are below it.
local M = {}

-- If the screen has at least this many columns, the code and gdb fit side by side.
local WIDE = 110

-- Whether the windows were last arranged side by side.
local side_by_side = nil

-- The buffers of termdebug's two terminals since its last start.
M.gdb, M.program = nil, nil

-- Find these buffers after a start of termdebug.
function M.learn()
  for _, channel in ipairs(vim.api.nvim_list_chans()) do
    local argv = channel.argv or {}
    if channel.mode == 'terminal' and table.concat(argv, ' '):find('#gdb program', 1, true) then
      M.program = channel.buffer
    elseif channel.mode == 'terminal' and vim.fn.fnamemodify(argv[1] or '', ':t') == 'gdb' then
      M.gdb = channel.buffer
    end
  end
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

-- The code window. Opens a new one if the learner has closed it.
function M.need_code_window()
  local window = M.code_window()
  if not window then
    vim.cmd('topleft vsplit | enew')
    window = vim.api.nvim_get_current_win()
    M.arrange()
  end
  return window
end

-- Put the cursors of the terminal windows on the last line, because only then a terminal window follows its output.
function M.follow_output()
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local buffer = vim.api.nvim_win_get_buf(window)
    if vim.bo[buffer].buftype == 'terminal' then
      vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(buffer), 0 })
    end
  end
end

local function window_with(buffer)
  return window_of(function(shown)
    return shown == buffer
  end)
end

-- The window of one of termdebug's terminals. If the learner has closed it, it is opened below `above` or on the right.
local function need_terminal_window(buffer, above)
  local window = window_with(buffer)
  if window or not buffer or not vim.api.nvim_buf_is_valid(buffer) then
    return window
  end
  if above then
    vim.api.nvim_set_current_win(above)
    vim.cmd('belowright split')
  else
    vim.cmd('botright vsplit')
  end
  vim.api.nvim_win_set_buf(0, buffer)
  return vim.api.nvim_get_current_win()
end

-- The content of the program's terminal, in a form that can be written to the terminal again.
function M.output()
  local window = window_with(M.program)
  if not window then
    return ''
  end
  local lines = vim.api.nvim_buf_get_lines(M.program, -vim.api.nvim_win_get_height(window) - 1, -1, false)
  return (table.concat(lines, '\r\n'):gsub('%s+$', ''))
end

-- The lines that the program has printed on the visible part of its terminal, without the terminal's line breaks.
function M.printed()
  local window = window_with(M.program)
  if not window then
    return {}
  end
  local width, found, continues = vim.api.nvim_win_get_width(window), {}, false
  for _, line in ipairs(vim.split(M.output(), '\r\n')) do
    if continues then
      found[#found] = found[#found] .. line
    else
      table.insert(found, line)
    end
    continues = vim.fn.strdisplaywidth(line) >= width
  end
  return found
end

local function plain(window, title)
  vim.wo[window].number = false
  vim.wo[window].signcolumn = 'no'
  vim.wo[window].statusline = title
  vim.wo[window].winhighlight = 'Normal:CardTerminal'
end

-- Arrange the windows for a screen of `columns`. They keep their ids, because termdebug uses these.
function M.arrange(columns)
  local code = M.code_window()
  local gdb = need_terminal_window(M.gdb, nil)
  local program = need_terminal_window(M.program, gdb)
  if gdb then
    plain(gdb, ' gdb')
  end
  if program then
    plain(program, ' the program')
  end
  side_by_side = (columns or vim.o.columns) >= WIDE
  local rows = vim.o.lines - 4
  if code then
    vim.api.nvim_set_current_win(code)
    vim.cmd(side_by_side and 'wincmd H' or 'wincmd K')
    if side_by_side then
      vim.api.nvim_win_set_width(code, math.floor(vim.o.columns * 0.55))
    else
      vim.api.nvim_win_set_height(code, math.floor(rows * 0.55))
    end
  end
  if gdb and program then
    vim.api.nvim_win_set_height(gdb, math.floor(rows * (side_by_side and 0.6 or 0.25)))
  end
  M.follow_output()
end

-- Arrange the windows for a screen of `columns` (default: the present width). If the learner has opened or closed
-- windows, arrange them only if the code no longer fits beside gdb, or fits there again.
function M.adapt(columns)
  columns = columns or vim.o.columns
  local windows = 0
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    windows = windows + (vim.api.nvim_win_get_config(window).relative == '' and 1 or 0)
  end
  if side_by_side == nil or (windows ~= 3 and side_by_side == (columns >= WIDE)) then
    return
  end
  local current, typing = vim.api.nvim_get_current_win(), vim.fn.mode() == 't'
  pcall(M.arrange, columns) -- a small screen may have no room for another window
  if vim.api.nvim_win_is_valid(current) then
    vim.api.nvim_set_current_win(current)
  end
  if typing then
    vim.cmd('startinsert')
  end
end

return M
