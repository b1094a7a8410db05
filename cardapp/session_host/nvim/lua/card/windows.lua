-- Three windows: the code on the left; gdb on the right, with the program's output below it. On a narrow screen the code
-- is on top, and the others are below it.
local reflow = require('card.reflow')
local M = {}

-- If the screen has at least this many columns, the code and gdb fit side by side.
local WIDE = 110

-- The code's share of the screen, and gdb's share of the rest, side by side (true) and one above the other (false). The
-- learner changes them by moving the borders of the windows.
local shares = { [true] = { code = 0.55, gdb = 0.65 }, [false] = { code = 0.55, gdb = 0.65 } }

-- Whether the windows were last arranged side by side.
local side_by_side = nil

-- The screen and the windows' sizes after they were last arranged, or after the learner moved their borders.
local known = nil

-- The buffers of termdebug's two terminals since its last start.
M.gdb, M.program = nil, nil

-- Find these buffers after a start of termdebug. The channel of an earlier gdb may still be listed.
function M.learn()
  local channels = vim.api.nvim_list_chans()
  table.sort(channels, function(one, other)
    return one.id < other.id
  end)
  for _, channel in ipairs(channels) do
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
  -- After a click the terminal takes the keys.
  vim.keymap.set('n', '<LeftRelease>', 'i', { buffer = vim.api.nvim_win_get_buf(window) })
end

-- Call `change`. Afterwards the same window has the focus, and if a terminal took the keys, it still takes them. If
-- `change` has replaced gdb's window, the new window gets both.
function M.keep_focus(change)
  local window, typing = vim.api.nvim_get_current_win(), vim.api.nvim_get_mode().mode == 't'
  local gdb = window_with(M.gdb)
  change()
  if window == gdb then
    window = window_with(M.gdb)
  end
  if not window or not vim.api.nvim_win_is_valid(window) then
    return
  end
  vim.api.nvim_set_current_win(window)
  if typing and window ~= gdb then -- the old terminal ends terminal mode when this function has returned
    vim.defer_fn(function()
      vim.cmd('startinsert')
    end, 0)
  end
end

-- -- sizes ----------------------------------------------------------------------------------------------------------

local function size_of(window)
  return side_by_side and vim.api.nvim_win_get_width(window) or vim.api.nvim_win_get_height(window)
end

-- The windows of the code, of gdb and of the program, if there are no others; else nil.
local function three()
  local count = 0
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    count = count + (vim.api.nvim_win_get_config(window).relative == '' and 1 or 0)
  end
  local code, gdb, program = M.code_window(), window_with(M.gdb), window_with(M.program)
  if count == 3 and code and gdb and program then
    return code, gdb, program
  end
end

-- The screen's size, and the sizes on which the shares depend; nil if there are other windows.
local function measured()
  local code, gdb, program = three()
  if not code then
    return nil
  end
  local rows = vim.api.nvim_win_get_height(gdb) + vim.api.nvim_win_get_height(program)
  return {
    screen = { vim.o.columns, vim.o.lines },
    code = { size_of(code), side_by_side and vim.o.columns or vim.api.nvim_win_get_height(code) + rows },
    gdb = { vim.api.nvim_win_get_height(gdb), rows },
  }
end

-- Take over the shares if the learner has moved a border, on a screen of the same size.
function M.learn_shares()
  local now = known and measured()
  if not now or not vim.deep_equal(now.screen, known.screen) then
    return
  end
  for _, name in ipairs({ 'code', 'gdb' }) do
    if now[name][1] ~= known[name][1] then
      shares[side_by_side][name] = now[name][1] / now[name][2]
    end
  end
  known = now
end

-- `share` of `whole`, which leaves at least one line or column for the other part.
local function part(whole, share)
  return math.max(1, math.min(whole - 1, math.floor(whole * share + 0.5)))
end

local function give_sizes(code, gdb, program)
  local share = shares[side_by_side]
  local height = vim.api.nvim_win_get_height
  if side_by_side then
    vim.api.nvim_win_set_width(code, part(vim.o.columns, share.code))
  else
    vim.api.nvim_win_set_height(code, part(height(code) + height(gdb) + height(program), share.code))
  end
  vim.api.nvim_win_set_height(gdb, part(height(gdb) + height(program), share.gdb))
end

-- Put the windows in their places. A terminal window that the learner has closed is opened again. The windows keep their
-- ids, because termdebug uses these.
function M.arrange()
  local code = M.code_window()
  local gdb = need_terminal_window(M.gdb, nil)
  local program = need_terminal_window(M.program, gdb)
  side_by_side = vim.o.columns >= WIDE
  if gdb then
    plain(gdb, ' gdb')
  end
  if program then
    plain(program, ' the program')
  end
  if code then
    vim.api.nvim_set_current_win(code)
    vim.cmd(side_by_side and 'wincmd H' or 'wincmd K')
  end
  if code and gdb and program then
    give_sizes(code, gdb, program)
  end
  known = measured()
  M.follow_output()
end

-- Arrange the windows for the screen's new size. If the learner has opened or closed windows, arrange them only if the
-- code no longer fits beside gdb, or fits there again.
function M.adapt()
  if side_by_side == nil or (not three() and side_by_side == (vim.o.columns >= WIDE)) then
    return
  end
  reflow.begin({ M.gdb, M.program })
  M.keep_focus(function()
    pcall(M.arrange) -- a small screen may have no room for another window
  end)
end

return M
