-- The commands of the card: position, moves, progress. `:CardHelp` lists them.
local actions = require('card.actions')
local api = require('card.api')
local catalog = require('card.catalog')
local explanations = require('card.explanations')
local message = require('card.message')
local M = {}

local SECONDS = 5
local LEVELS = { 'task', 'block', 'phase', 'step', 'snapshot' }
local IDS = { 'task_id', 'block_id', 'phase_id', 'step_id' }

-- GET each path in order, then call `done` with the answers. The first failure is shown, and `done` is not called.
local function fetch(name, paths, done, answers)
  answers = answers or {}
  local path = paths[#answers + 1]
  if not path then
    local sound = pcall(done, unpack(answers))
    return not sound and actions.warn(name, 'the application sent an unexpected answer')
  end
  api.request('GET', path, nil, SECONDS, function(failure, answer)
    if failure then
      return actions.warn(name, failure)
    end
    answers[#answers + 1] = answer
    fetch(name, paths, done, answers)
  end)
end

local function with_catalog(name, done)
  catalog.load(function(failure)
    if failure then
      return actions.warn(name, failure)
    end
    done()
  end)
end

-- -- the position ---------------------------------------------------------------------------------------------------

local function sync_state(control)
  local checkpoint = control.checkpoint
  if checkpoint and checkpoint.state == 'running' then
    return ('SYNC %s, %s …'):format(control.sync:upper(), checkpoint.stage)
  elseif control.sync == 'on' then
    return 'SYNC ON, ' .. (control.at_position and 'at this position' or 'at ' .. control.key)
  end
  return 'SYNC OFF, ' .. (control.reason or 'not synced yet'):gsub('_', ' ')
end

local function show_position()
  with_catalog('position', function()
    fetch('position', { '/api/navigation/current', '/api/control/state' }, function(current, control)
      local key = current.key
      local lines = { (key == '' and 'the whole card' or key) .. ': ' .. sync_state(control), '', catalog.numbered('') }
      for at = 1, #key do
        if key:sub(at + 1, at + 1):find('^/?$') then
          lines[#lines + 1] = catalog.numbered(key:sub(1, at))
        end
      end
      message.list(lines)
    end)
  end)
end

local function warn_of_no_step(name)
  actions.warn(name, 'the position is not at a step: go to one, for example with :CardMove step 1')
end

local function show_text()
  with_catalog('text', function()
    fetch('text', { '/api/navigation/current' }, function(current)
      local step = catalog.step_of(current.key)
      if not step then
        return warn_of_no_step('text')
      end
      local lines = { '# ' .. catalog.numbered(step.key) }
      for _, part in ipairs({ step.text or '', step.question and '## Question\n\n' .. step.question or '' }) do
        if part ~= '' then
          vim.list_extend(lines, { '', unpack(vim.split(part, '\n')) })
        end
      end
      message.text(lines)
    end)
  end)
end

local function go(key)
  local parts = key == '' and {} or vim.split(key, '/', { plain = true })
  if #parts > #LEVELS then
    return actions.warn('go', key .. ' has too many parts; give task/block/phase/step/snapshot, or its beginning')
  end
  local body = { focus_level = LEVELS[#parts] or 'card' }
  for at, id in ipairs(IDS) do
    body[id] = parts[at]
  end
  body.snapshot_ref = #parts == #LEVELS and key or nil
  actions.run('go', body)
end

local function move(arguments)
  local level, delta = arguments[1], tonumber(arguments[#arguments])
  if not delta or delta % 1 ~= 0 or #arguments > 2 then
    return actions.warn('move', 'give a level, if it is not the focused one, and a whole number: CardMove step -1')
  end
  actions.run('move', { level = #arguments == 2 and level or nil, delta = delta })
end

-- -- the progress ---------------------------------------------------------------------------------------------------

local function line_of(item)
  local last = item.last_result and item.last_result.state or 'ready'
  local result = last ~= 'ready' and (' (last replay: %s)'):format(last) or ''
  local note = item.note ~= '' and ': ' .. item.note or ''
  local mark = item.status == 'approved' and '✓' or '·'
  return ('%s %s%s%s'):format(mark, catalog.numbered(item.key), result, note)
end

local function show_progress()
  with_catalog('progress', function()
    fetch('progress', { '/api/progress', '/api/navigation/current' }, function(progress, current)
      local sum, row = progress.summary, 1
      local runs = sum.execution
      local lines = {
        ('%d of %d steps approved; %d replayed, %d failed, %d never run'):format(
          sum.approved, sum.total, runs.ready, runs.failed, runs.never_run
        ),
      } -- stylua: ignore
      for _, item in ipairs(progress.items) do
        lines[#lines + 1] = line_of(item)
        row = vim.startswith(current.key .. '/', item.key .. '/') and #lines or row
      end
      message.list(lines, row, function(at)
        if at > 1 then
          go(progress.items[at - 1].key)
        end
      end, 'goes to the step')
    end)
  end)
end

-- Set the status of the step at the position. Without a new note, the step keeps its note.
local function mark(name, status, note)
  fetch(name, { '/api/navigation/current', '/api/progress' }, function(current, progress)
    for _, item in ipairs(progress.items) do
      if vim.startswith(current.key .. '/', item.key .. '/') then
        return actions.run(name, { status = status, note = note ~= '' and note or item.note }, {
          method = 'PUT',
          path = '/api/progress/' .. item.id,
          describe = function(answer)
            return answer.key .. ' is ' .. answer.status
          end,
        })
      end
    end
    warn_of_no_step(name)
  end)
end

-- -- the commands ---------------------------------------------------------------------------------------------------

local function complete_key(lead)
  return catalog.complete(lead)
end

local function complete_level(lead, line)
  if line:find('^%s*%S+%s+%S+%s') then
    return {}
  end
  return vim.tbl_filter(function(level)
    return vim.startswith(level, lead)
  end, LEVELS)
end

local function complete_of(changes)
  return function(lead)
    return vim.tbl_filter(function(change)
      return vim.startswith(change, lead)
    end, changes)
  end
end

-- Name, arguments as :CardHelp shows them, description, function, and the options of nvim_create_user_command.
local COMMANDS
local function show_help()
  local lines = { 'The commands of the card', '' }
  for _, command in ipairs(COMMANDS) do
    lines[#lines + 1] = ('%-24s %s'):format(':' .. vim.trim(command[1] .. ' ' .. command[2]), command[3])
  end
  message.list(lines)
end

-- stylua: ignore start
COMMANDS = {
  { 'CardPosition', '', 'show the position in the card, and SYNC', show_position },
  { 'CardText', '', 'show the text and the question of the step', show_text },
  { 'CardGo', '[key]', 'go to a position (Tab completes it), or to the whole card',
    function(given) go(given.args) end, { nargs = '?', complete = complete_key } },
  { 'CardMove', '[level] {delta}', 'go forward or back on a level',
    function(given) move(given.fargs) end, { nargs = '+', complete = complete_level } },
  { 'CardSync', '', 'bring the program to the position', function() actions.run('sync') end },
  { 'CardCancel', '', 'end the running replay', function() actions.run('cancel') end },
  { 'CardProgress', '', 'list the steps with their status', show_progress },
  { 'CardApprove', '[note]', 'approve the step', function(given) mark('approve', 'approved', given.args) end,
    { nargs = '*' } },
  { 'CardPending', '[note]', 'set the step back to pending', function(given) mark('pending', 'pending', given.args) end,
    { nargs = '*' } },
  { 'CardStrategy', '[id]', 'list the strategies, or run one at its stop; add {label} | {command}…, remove {id}',
    function(given) explanations.strategy(vim.trim(given.args)) end,
    { nargs = '*', complete = complete_of(explanations.STRATEGY_CHANGES) } },
  { 'CardAnnotations', '[change] [id]', 'list the annotations; show, hide or toggle all or one; add {text}, remove {id}',
    function(given) explanations.annotations(vim.trim(given.args)) end,
    { nargs = '*', complete = complete_of(explanations.ANNOTATION_CHANGES) } },
  { 'CardKeys', '', 'show the keys', function() require('card.keys').show() end },
  { 'CardHelp', '', 'show this list', show_help },
}
-- stylua: ignore end

function M.setup()
  for _, command in ipairs(COMMANDS) do
    local options = vim.tbl_extend('error', { desc = 'card: ' .. command[3], force = true }, command[5] or {})
    vim.api.nvim_create_user_command(command[1], command[4], options)
  end
end

return M
