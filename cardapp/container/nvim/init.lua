-- The session's Neovim. Nothing of the learner's own set-up is read: a session looks and behaves the same everywhere.
local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
vim.opt.runtimepath = { here, vim.env.VIMRUNTIME }
vim.opt.packpath = { vim.env.VIMRUNTIME }

-- Nothing may wait for a key: every request from outside would wait with it.
vim.opt.confirm = false
vim.opt.more = false
vim.opt.swapfile = false
vim.opt.shortmess:append('aAIcsW')
vim.opt.cmdheight = 2

vim.opt.autoread = true
vim.opt.hidden = true
vim.opt.mouse = 'a'
vim.opt.number = true
vim.opt.signcolumn = 'yes'
vim.opt.scrolloff = 3
vim.opt.equalalways = false
vim.opt.title = false
vim.opt.background = 'dark'
vim.opt.laststatus = 2
vim.g.c_syntax_for_h = 1

-- <Esc> leaves the gdb window's prompt as it leaves any other input.
vim.keymap.set('t', '<Esc>', [[<C-\><C-n>]])

vim.api.nvim_create_autocmd('VimEnter', {
  callback = function()
    vim.schedule(require('card.debugger').start)
  end,
})

-- A file that changed on disk is read again without a question, unless that would lose unsaved changes.
vim.api.nvim_create_autocmd('FileChangedShell', {
  callback = function()
    vim.v.fcs_choice = vim.v.fcs_reason == 'changed' and 'reload' or ''
  end,
})

-- The keyboard table's editor keys, where the application ships them.
local found, keys = pcall(require, 'card.keys')
if found then
  pcall(keys.setup)
end
