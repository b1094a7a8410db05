-- The colours of the page on a dark screen, and further ones, for user interfaces with RGB colours. A terminal without
-- RGB keeps its 16 colours. A test checks that paper, ink, soft, blue and red equal the colours of the page.
vim.cmd('highlight clear')
vim.g.colors_name = 'card'

local paper, panel, raised, ink, soft = '#1a1d22', '#22262c', '#323a44', '#dfe7f2', '#a9b6c6'
local blue, amber, green, violet, red = '#76befb', '#e3a86c', '#7fcf9f', '#b9a6f7', '#f7857c'

local GROUPS = {
  Normal = { ink, paper }, NormalFloat = { ink, panel }, LineNr = { '#75818f' }, CursorLineNr = { ink },
  SignColumn = { soft, paper }, VertSplit = { raised, paper }, StatusLine = { ink, raised, 'bold' },
  StatusLineNC = { soft, panel, 'NONE' }, Visual = { nil, '#2f4a63' }, Search = { paper, amber }, IncSearch = { paper, amber, 'NONE' },
  NonText = { '#5b6672', nil, 'NONE' }, EndOfBuffer = { '#3a424c' }, MatchParen = { nil, '#3f5468' }, ModeMsg = { ink, nil, 'NONE' },
  MoreMsg = { green, nil, 'NONE' }, Question = { green, nil, 'NONE' }, ErrorMsg = { red, paper }, WarningMsg = { amber },
  Directory = { blue }, Title = { ink, nil, 'bold' }, Pmenu = { ink, panel }, PmenuSel = { paper, blue }, Folded = { soft, panel },
  Comment = { '#94a3b5', nil, 'italic' }, Constant = { amber }, String = { green }, Identifier = { ink, nil, 'NONE' },
  Statement = { violet, nil, 'NONE' }, PreProc = { violet }, Type = { blue, nil, 'NONE' }, Special = { amber }, Todo = { paper, amber },
  -- A terminal that becomes wider fills its lines with black.
  CardTerminal = { ink, '#000000' },
  debugPC = { nil, '#3a3524' }, debugBreakpoint = { paper, red },
}

-- The 16 colours of gdb and of the program in their terminals; the second eight are the bright ones.
local TERMINAL = { panel, red, green, amber, blue, violet, '#6fcfd0', soft }
for at, colour in ipairs(TERMINAL) do
  vim.g['terminal_color_' .. (at - 1)] = colour
  vim.g['terminal_color_' .. (at + 7)] = at == 1 and '#75818f' or at == 8 and ink or colour
end

for group, look in pairs(GROUPS) do
  local parts = { 'highlight', group }
  for at, name in ipairs({ 'guifg', 'guibg', 'gui' }) do
    if look[at] then
      table.insert(parts, name .. '=' .. look[at])
    end
  end
  vim.cmd(table.concat(parts, ' '))
end
