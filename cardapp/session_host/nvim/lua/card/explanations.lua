-- Strategies and annotations: lists, adds and removes them, runs a strategy at its stop, shows and hides annotations.
local actions = require('card.actions')
local api = require('card.api')
local catalog = require('card.catalog')
local message = require('card.message')
local M = {}

local SECONDS = 5
M.STRATEGY_CHANGES = { 'add', 'remove' }
M.ANNOTATION_CHANGES = { 'show', 'hide', 'toggle', 'add', 'remove' }
local LAYER = { 'show', 'hide', 'toggle' } -- the changes that apply to one annotation or to all

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

local function remove(name, kind, id)
  if not (id or ''):find('^%w+$') then
    return actions.warn(name, 'give the id of the one to remove; without arguments the command lists them')
  end
  actions.run(name, {}, {
    method = 'DELETE',
    path = ('/api/%s/%s?actor=editor'):format(kind, id),
    describe = function()
      return id .. ' is removed'
    end,
  })
end

local function added(answer)
  return ('%s is added at %s'):format(answer.id, place(answer.key))
end

-- -- strategies -----------------------------------------------------------------------------------------------------

local function verdict(result)
  if result.match == nil then
    return '  '
  end
  return result.match and '✓ ' or '✗ '
end

-- Show the output of each command. Returns how many printed the expected output.
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

-- Add a strategy at the stop of the position. `text` is its label and its commands, with bars between them.
local function add_strategy(text)
  local parts = vim.tbl_map(vim.trim, vim.split(text, '|', { plain = true }))
  if #parts < 2 then
    return actions.warn('strategy', 'give a label and gdb commands: CardStrategy add Who calls | backtrace | print n')
  end
  local body = { label = table.remove(parts, 1), commands = parts }
  actions.run('strategy', body, { path = '/api/strategies', describe = added })
end

-- Add or remove a strategy, or run the strategy with the given id. Without arguments list the strategies of the card.
function M.strategy(given)
  local change, rest = given:match('^(%w+)%s*(.*)$')
  if change == 'add' then
    return add_strategy(rest)
  elseif change == 'remove' then
    return remove('strategy', 'strategies', rest)
  elseif given ~= '' then
    return run(given)
  end
  fetch('strategy', '/api/strategies', function(answer)
    if #answer.strategies == 0 then
      return message.show('this card has no strategies; :CardStrategy add and the page (Alt+8) add them')
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
  if not vim.tbl_contains(LAYER, action) or (id and not id:find('^%w+$')) then
    local changes = table.concat(M.ANNOTATION_CHANGES, ', ')
    return actions.warn('annotations', ('give %s, and for one annotation its id: CardAnnotations hide a3'):format(changes))
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

-- Write a callout beside the title of the step at the position.
local function add_annotation(text)
  if text == '' then
    return actions.warn('annotations', 'give the text of the callout: CardAnnotations add Look at n')
  end
  fetch('annotations', '/api/navigation/current', function(current)
    local step = catalog.step_of(current.key)
    if not step then
      return actions.warn('annotations', 'the position is not at a step: go to one, for example with :CardMove step 1')
    end
    local body = {
      target = { part = step.key .. ':step_title', x = 0, y = 0, w = 1, h = 1 },
      geometry = { points = { { 0.5, 0 } } },
      style = { kind = 'callout' },
      text = text,
    }
    actions.run('annotations', body, { path = '/api/annotations', describe = added })
  end)
end

-- Add or remove an annotation, or show or hide all annotations or the one with the given id. Without arguments list
-- them.
function M.annotations(given)
  local action, rest = given:match('^(%w+)%s*(.*)$')
  if action == 'add' then
    return add_annotation(rest)
  elseif action == 'remove' then
    return remove('annotations', 'annotations', rest)
  elseif given ~= '' then
    return change(action or given, rest ~= '' and rest or nil)
  end
  fetch('annotations', '/api/annotations', function(answer)
    if #answer.annotations == 0 then
      return message.show('this card has no annotations; the page (Alt+8) draws them')
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
