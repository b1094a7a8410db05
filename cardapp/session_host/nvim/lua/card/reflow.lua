-- Keeps the text of terminal windows when their width changes. Neovim cuts the visible lines of a terminal at its new
-- width. Here the whole lines are written to the terminal again, so that a long line continues on the next row, and a
-- line that continued is joined again in a wider window.
local uv = vim.uv or vim.loop
local M = {}

local SETTLE_MS = 50 -- Neovim updates a terminal's buffer some ms after its window

local kept = {} -- buffer -> its lines before the change, until the change is complete
local continued = {} -- buffer -> rows that continue on the next row, by their text without blanks at the end
local timer = uv.new_timer()

local function lines_of(buffer)
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

local function tty_of(buffer)
  return vim.api.nvim_get_chan_info(vim.bo[buffer].channel).pty
end

-- Columns and rows of a terminal. They change together with its buffer, later than its window.
local function size_of(buffer)
  local tty = uv.new_tty(assert(uv.fs_open(tty_of(buffer), 'r+', 0)), false)
  local columns, rows = tty:get_winsize()
  tty:close()
  return columns, rows
end

-- Neovim 0.7 shows no blanks at the end of a row.
local function trimmed(row)
  return (row:gsub(' +$', ''))
end

local function note_continued(buffer, row)
  continued[buffer][trimmed(row)] = row
end

-- The visible lines, with the text that they had in the rows `before`, joined where they continued; and whether that
-- differs from what is shown. A line that was printed meanwhile stays as it is.
local function whole_lines(buffer, before, rows)
  local lines, differs, continues = {}, false, false
  local now = lines_of(buffer)
  for at = math.max(1, #now - rows + 1), #now do
    local old, new = before[at], now[at]
    local line = old and new ~= '' and vim.startswith(old, new) and old or new
    differs = differs or continues or line ~= new
    local whole = continued[buffer][trimmed(line)]
    if continues then
      lines[#lines] = lines[#lines] .. (whole or line)
    else
      lines[#lines + 1] = whole or line
    end
    continues = whole ~= nil
  end
  while lines[#lines] and trimmed(lines[#lines]) == '' do
    lines[#lines] = nil
  end
  return lines, differs
end

-- Neovim reads the terminal in the same thread, so the text is written in another one.
local function write(tty, text)
  uv.fs_open(tty, 'r+', 0, function(_, file)
    if file then
      uv.fs_write(file, text, -1, function()
        uv.fs_close(file)
      end)
    end
  end)
end

local function restore(buffer, before)
  local columns, rows = size_of(buffer)
  local lines, differs = whole_lines(buffer, before, rows)
  if not differs then
    return
  end
  for _, line in ipairs(lines) do
    for first = 1, #line - columns, columns do
      note_continued(buffer, line:sub(first, first + columns - 1))
    end
  end
  local last = lines[#lines] or ''
  local ending = last:find('^%(gdb%)') and (#last < #'(gdb) ' and ' ' or '') or '\r\n'
  write(tty_of(buffer), '\27[0m\27[2J\27[H' .. table.concat(lines, '\r\n') .. ending)
end

local function keep(buffer)
  local columns, rows = size_of(buffer)
  local lines = lines_of(buffer)
  continued[buffer] = continued[buffer] or {}
  for at = math.max(1, #lines - rows + 1), #lines do
    if vim.fn.strdisplaywidth(lines[at]) >= columns then
      note_continued(buffer, lines[at])
    end
  end
  kept[buffer] = lines
end

-- Call this after the windows have changed and before Neovim has updated the buffers of their terminals, for example on
-- VimResized.
function M.begin(buffers)
  for _, buffer in ipairs(buffers) do
    if not kept[buffer] then
      pcall(keep, buffer) -- its program may have ended
    end
  end
  timer:start(SETTLE_MS, 0, vim.schedule_wrap(function()
    local changed = kept
    kept = {}
    for buffer, before in pairs(changed) do
      pcall(restore, buffer, before)
    end
  end))
end

return M
