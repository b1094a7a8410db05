-- Messages for the learner: one line in the message area, or a list or a text in a floating window. None waits for a key.
-- While a command is being typed, a message is kept and shown afterwards.
local M = {}

local TEXT_WIDTH = 80 -- columns; longer lines are harder to read

local waiting

local function after_typing(tell)
  if vim.fn.getcmdtype() == '' then
    waiting = nil
    return tell()
  end
  if not waiting then
    vim.api.nvim_create_autocmd('CmdlineLeave', {
      once = true,
      callback = vim.schedule_wrap(function()
        after_typing(waiting)
      end),
    })
  end
  waiting = tell -- only the latest message is kept
end

local function echo(text, highlight)
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

-- Show one line. It is shortened so that Neovim shows no hit-enter prompt, and it is not added to :messages.
function M.show(text, highlight)
  after_typing(function()
    echo(text, highlight)
  end)
end

local function close(window)
  if vim.api.nvim_win_is_valid(window) then
    vim.api.nvim_win_close(window, true)
  end
end

-- The rows of a line that is wrapped between its words.
local function rows_of(line, width)
  local rows, used = 1, 0
  for word in line:gmatch('%s*%S+') do
    local length = vim.fn.strdisplaywidth(word)
    if used > 0 and used + length > width then
      rows, used = rows + 1, 0
    end
    rows, used = rows + math.floor((used + length - 1) / width), (used + length - 1) % width + 1
  end
  return rows
end

-- The size of a window for `lines`: as large as they are, or, if they are wrapped, at most TEXT_WIDTH wide.
local function size_for(lines, wraps)
  local width, height = 1, 0
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  width = math.min(width, math.max(vim.o.columns - 4, 1), wraps and TEXT_WIDTH or math.huge)
  for _, line in ipairs(lines) do
    height = height + (wraps and rows_of(line, width) or 1)
  end
  return width, math.min(height, math.max(vim.o.lines - vim.o.cmdheight - 4, 1))
end

-- `options`: `row` is the line of the cursor, `on_enter` the action of <CR> and `enters` what it does, in words; `wraps`
-- says whether lines are wrapped.
local function open(lines, options)
  local row, on_enter = options.row, options.on_enter
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable, vim.bo[buffer].bufhidden = false, 'wipe'
  local width, height = size_for(lines, options.wraps)
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = 'editor', style = 'minimal', border = 'rounded', width = width, height = height,
    row = math.floor((vim.o.lines - height) / 3), col = math.floor((vim.o.columns - width) / 2),
  }) -- stylua: ignore
  vim.wo[window].wrap, vim.wo[window].cursorline = options.wraps == true, row ~= nil
  vim.wo[window].linebreak = true
  vim.api.nvim_win_set_cursor(window, { row or 1, 0 })
  for _, key in ipairs({ 'q', '<Esc>' }) do
    vim.keymap.set('n', key, function()
      close(window)
    end, { buffer = buffer, nowait = true })
  end
  if on_enter then
    vim.keymap.set('n', '<CR>', function()
      local at = vim.api.nvim_win_get_cursor(window)[1]
      close(window)
      on_enter(at)
    end, { buffer = buffer, nowait = true })
  end
  vim.api.nvim_create_autocmd('WinLeave', {
    buffer = buffer,
    once = true,
    callback = vim.schedule_wrap(function()
      close(window)
    end),
  })
  echo(('q closes the %s'):format(options.wraps and 'text' or 'list') .. (on_enter and ', <CR> ' .. options.enters or ''))
end

-- Show `lines` in a floating window. It closes on q, on Escape and when it loses the focus. No window is opened if the
-- learner has begun to type, or in the command-line window, because Neovim does not allow it there. Then the first line is
-- shown as a message.
local function show(lines, options)
  local clean = vim.tbl_map(function(line)
    return (line:gsub('%c+', ' '))
  end, lines)
  after_typing(function()
    local mode = vim.api.nvim_get_mode().mode
    if (mode ~= 'n' and mode ~= 'nt') or vim.fn.getcmdwintype() ~= '' then
      return echo(clean[1])
    end
    open(clean, options)
  end)
end

-- Show a list. The cursor starts on line `row`; <CR> calls `on_enter` with the cursor's line. `enters` says what it does.
function M.list(lines, row, on_enter, enters)
  show(lines, { row = row, on_enter = on_enter, enters = enters })
end

-- Show a text, whose lines are wrapped.
function M.text(lines)
  show(lines, { wraps = true })
end

return M
