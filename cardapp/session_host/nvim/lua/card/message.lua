-- Messages for the learner: one line in the message area, or a list in a floating window. Neither waits for a key. While
-- a command is being typed, a message is kept and shown afterwards.
local M = {}

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

local function open(lines, row, on_enter)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable, vim.bo[buffer].bufhidden = false, 'wipe'
  local width = 1
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  width = math.min(width, math.max(vim.o.columns - 4, 1))
  local height = math.min(#lines, math.max(vim.o.lines - vim.o.cmdheight - 4, 1))
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = 'editor', style = 'minimal', border = 'rounded', width = width, height = height,
    row = math.floor((vim.o.lines - height) / 3), col = math.floor((vim.o.columns - width) / 2),
  }) -- stylua: ignore
  vim.wo[window].wrap, vim.wo[window].cursorline = false, row ~= nil
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
  echo('q closes the list' .. (on_enter and ', <CR> goes to the step' or ''))
end

-- Show `lines` in a floating window. It closes on q, on Escape and when it loses the focus. The cursor starts on line
-- `row`; <CR> calls `on_enter` with the cursor's line. No window is opened if the learner has begun to type, or in the
-- command-line window, because Neovim does not allow it there. Then the first line is shown as a message.
function M.list(lines, row, on_enter)
  local clean = vim.tbl_map(function(line)
    return (line:gsub('%c+', ' '))
  end, lines)
  after_typing(function()
    local mode = vim.api.nvim_get_mode().mode
    if (mode ~= 'n' and mode ~= 'nt') or vim.fn.getcmdwintype() ~= '' then
      return echo(clean[1])
    end
    open(clean, row, on_enter)
  end)
end

return M
