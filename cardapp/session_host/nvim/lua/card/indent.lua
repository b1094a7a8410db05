-- Sets the indent options of a buffer from the indentation of its lines, so that new lines match the card's lines.
local M = {}

local DEFAULT, WIDEST = 4, 8

-- The key with the largest count; the smallest such key if counts are equal. nil if there is none.
local function most(counts)
  local found
  for width = 2, WIDEST do
    if counts[width] and counts[width] > (found and counts[found] or 0) then
      found = width
    end
  end
  return found
end

-- The options for a file of these lines.
function M.detect(lines)
  local tabs, spaces, mixed, steps, before = 0, 0, false, {}, 0
  for _, line in ipairs(lines) do
    local tab, blanks, text = line:match('^(\t*)( *)(.*)')
    if text ~= '' and text:sub(1, 1) ~= '*' then -- a line of a block comment has one more blank
      tabs, spaces = tabs + (#tab > 0 and 1 or 0), spaces + (#tab == 0 and #blanks > 1 and 1 or 0)
      mixed = mixed or (#tab > 0 and #blanks > 0)
      local width = #tab * WIDEST + #blanks
      steps[width - before], before = (steps[width - before] or 0) + 1, width
    end
  end
  -- Files that combine tabs and blanks rely on tabs of eight columns.
  mixed = mixed or (tabs > 0 and spaces > 0)
  if tabs > spaces and not mixed then
    return { expandtab = false, tabstop = DEFAULT, shiftwidth = DEFAULT }
  end
  return { expandtab = tabs <= spaces, tabstop = mixed and WIDEST or DEFAULT, shiftwidth = most(steps) or DEFAULT }
end

function M.apply(buffer)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, 2000, false)
  for name, value in pairs(M.detect(lines)) do
    vim.bo[buffer][name] = value
  end
  vim.bo[buffer].softtabstop = -1 -- as wide as shiftwidth
end

return M
