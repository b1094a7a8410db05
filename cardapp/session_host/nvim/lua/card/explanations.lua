-- Strategies and annotations: lists them, runs a strategy at its stop, shows and hides annotations.
local actions = require('card.actions')
local api = require('card.api')
local catalog = require('card.catalog')
local message = require('card.message')
local M = {}

local SECONDS = 5
M.CHANGES = { 'show', 'hide', 'toggle' }

-- GET a list of the application with the catalog, then call `done` with the list.
local function fetch(name, path, done)
  catalog.load(function(failure)
    if failure then
      return actions.warn(name, failure)
    end
    api.request('GET', path, nil, SECONDS, function(refused, answer)
      if refused or not pcall(done, answer) then
        actions.warn(name, refused or 'the application sent an unexpected answer')
      end
    end)
  end)
end

-- The step of a snapshot, like `1.2.1.1 The first block`; its key if the card no longer has it.
local function place(key)
  local step = catalog.step_of(key)
  return step and catalog.numbered(step.key) or key
end

-- -- strategies -----------------------------------------------------------------------------------------------------

local function verdict(result)
  if result.match == nil then
    return '  '
  end
  return result.match and '✓ ' or '✗ '
end

-- Show what each command printed. Returns how many printed what was expected.
local function show_results(answer)
  local lines, asked, right = { 'The strategy ' .. answer.id, '' }, 0, 0
  for _, result in ipairs(answer.results) do
    lines[#lines + 1] = verdict(result) .. result.command
    for line in ((result.output or 'not run: the time was over') .. '\n'):gmatch('(.-)\n') do
      lines[#lines + 1] = '    ' .. line
    end
    if result.match ~= nil then
      asked = asked + 1
      right = right + (result.match and 1 or 0)
    end
    if result.match == false then
      lines[#lines + 1] = '    expected: ' .. result.expected
    end
  end
  message.list(lines)
  return ('%d of %d as expected'):format(right, asked)
end

local function run(id)
  if not id:find('^%w+$') then
    return actions.warn('strategy', id .. ' is no id of a strategy; :CardStrategy lists them')
  end
  actions.run('strategy', {}, {
    path = ('/api/strategies/%s/run'):format(id),
    stages = true,
    describe = show_results,
  })
end

-- Run the strategy with this id. Without an id list the strategies of the card.
function M.strategy(id)
  if id ~= '' then
    return run(id)
  end
  fetch('strategy', '/api/strategies', function(answer)
    if #answer.strategies == 0 then
      return message.show('this card has no strategies; the page adds them (Alt+8)')
    end
    local lines = {}
    for _, each in ipairs(answer.strategies) do
      lines[#lines + 1] = ('%s %s, at %s: %s'):format(each.id, each.label, place(each.key), table.concat(each.commands, ' · '))
    end
    message.list(lines, 1, function(at)
      run(answer.strategies[at].id)
    end, 'runs the strategy')
  end)
end

-- -- annotations ----------------------------------------------------------------------------------------------------

local function change(action, id)
  if not vim.tbl_contains(M.CHANGES, action) or (id and not id:find('^%w+$')) then
    return actions.warn('annotations', 'give show, hide or toggle, and for one annotation its id: CardAnnotations hide a3')
  end
  local one = id and '/' .. id or ''
  actions.run('annotations', {}, {
    path = ('/api/annotations%s/%s'):format(one, action),
    describe = function(answer)
      local shown = 0
      for _, each in ipairs(answer.annotations or { answer }) do
        shown = shown + (each.visible and 1 or 0)
      end
      return ('%d of %d shown'):format(shown, answer.annotations and #answer.annotations or 1)
    end,
  })
end

-- Show or hide all annotations, or the one with the id. Without arguments list them.
function M.annotations(arguments)
  if #arguments > 0 then
    return change(arguments[1], arguments[2])
  end
  fetch('annotations', '/api/annotations', function(answer)
    if #answer.annotations == 0 then
      return message.show('this card has no annotations; the page draws them (Alt+8)')
    end
    local lines = {}
    for _, each in ipairs(answer.annotations) do
      local mark, text = each.visible and '✓' or '·', each.text ~= '' and ': ' .. each.text or ''
      lines[#lines + 1] = ('%s %s %s, at %s%s'):format(mark, each.id, each.style.kind, place(each.key), text)
    end
    message.list(lines, 1, function(at)
      change('toggle', answer.annotations[at].id)
    end, 'shows or hides it')
  end)
end

return M
