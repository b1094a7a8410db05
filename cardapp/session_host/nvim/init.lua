-- The session's Neovim. It does not read the learner's own configuration, so that all sessions behave the same.
local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
vim.opt.runtimepath = { here, vim.env.VIMRUNTIME }
vim.opt.packpath = { vim.env.VIMRUNTIME }

-- Neovim must not open a prompt by itself, because all requests would wait until a key is pressed.
vim.opt.confirm = false
vim.opt.more = false
vim.opt.swapfile = false
vim.opt.shortmess:append('aAIcsW')
vim.opt.cmdheight = 2

vim.opt.autoread = true
vim.opt.hidden = true
vim.opt.mouse = 'a'
vim.opt.number = true
vim.opt.wrap = false
vim.opt.signcolumn = 'yes'
vim.opt.scrolloff = 3
vim.opt.equalalways = false
vim.opt.title = false
vim.opt.background = 'dark'
vim.opt.laststatus = 2
vim.opt.updatetime = 100
vim.g.c_syntax_for_h = 1
vim.cmd('colorscheme card')

-- In the gdb window <Esc> leaves terminal mode, as it leaves insert mode in other windows.
vim.keymap.set('t', '<Esc>', [[<C-\><C-n>]])

vim.api.nvim_create_autocmd('VimEnter', {
  callback = function()
    vim.schedule(require('card.debugger').start)
  end,
})

vim.api.nvim_create_autocmd('VimResized', {
  callback = function()
    require('card.windows').adapt()
  end,
})
-- WinScrolled comes when a window's size has changed; in Neovim 0.7 only for the window with the focus.
vim.api.nvim_create_autocmd({ 'WinScrolled', 'CursorHold' }, {
  callback = function()
    require('card.windows').learn_shares()
  end,
})

vim.api.nvim_create_autocmd('BufWinEnter', { -- later than the options of the file's type
  callback = function(event)
    if vim.bo[event.buf].buftype == '' then
      require('card.indent').apply(event.buf)
    end
  end,
})

-- Reload a file that changed on disk without a question, unless it has unsaved changes.
vim.api.nvim_create_autocmd('FileChangedShell', {
  callback = function()
    vim.v.fcs_choice = vim.v.fcs_reason == 'changed' and 'reload' or ''
  end,
})

-- The commands of the card, the keys from the table of shortcuts, and the watch on terminals. An error in them must not
-- prevent Neovim's start.
for _, part in ipairs({ 'card.user_commands', 'card.keys', 'card.terminal' }) do
  local found, loaded = pcall(require, part)
  if found then
    pcall(loaded.setup)
  end
end
