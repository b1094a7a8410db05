-- The session's Neovim. It does not read the learner's own configuration, so that all sessions behave the same.
local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
vim.opt.runtimepath = { here, vim.env.VIMRUNTIME }
vim.opt.packpath = { vim.env.VIMRUNTIME }

-- Neovim must not wait for a key on its own: all requests would wait too.
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
vim.cmd('colorscheme card')

-- <Esc> leaves terminal mode in the gdb window, as it leaves insert mode elsewhere.
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

-- Reload a file that changed on disk without a question, unless it has unsaved changes.
vim.api.nvim_create_autocmd('FileChangedShell', {
  callback = function()
    vim.v.fcs_choice = vim.v.fcs_reason == 'changed' and 'reload' or ''
  end,
})

-- The commands of the card, and the editor keys of the keyboard table. A fault in them must not keep Neovim from
-- starting.
for _, part in ipairs({ 'card.user_commands', 'card.keys' }) do
  local found, loaded = pcall(require, part)
  if found then
    pcall(loaded.setup)
  end
end
