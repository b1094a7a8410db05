-- The positions of the card (GET /api/navigation/catalog), with the numbers that the page's outline shows.
local api = require('card.api')
local M = {}

local SECONDS, FIRST_WAIT = 5, 300 -- timeout in seconds; wait in ms

M.items, M.numbers, M.titles = {}, {}, {}

local function take(answer)
  local numbers, titles, children = { [''] = '' }, {}, {}
  for _, item in ipairs(answer.items) do
    local parent = item.parent
    titles[item.key] = item.title
    if parent then
      children[parent] = (children[parent] or 0) + 1
      numbers[item.key] = (parent == '' and '' or numbers[parent] .. '.') .. children[parent]
    end
  end
  M.items, M.numbers, M.titles = answer.items, numbers, titles
end

-- Load the catalog again, since the card may have changed; `done(failure)` is called once.
function M.load(done)
  api.request('GET', '/api/navigation/catalog', nil, SECONDS, function(failure, answer)
    if not failure and not pcall(take, answer) then
      failure = 'the application sent no usable catalog'
    end
    done(failure)
  end)
end

-- The number and the title of an item, like `2.1 Padding`. The card itself has no number.
function M.numbered(key)
  return vim.trim(('%s %s'):format(M.numbers[key] or '', M.titles[key] or key))
end

-- The step at the position `key` or above it; nil if there is none.
function M.step_of(key)
  for _, item in ipairs(M.items) do
    if item.level == 'step' and vim.startswith(key .. '/', item.key .. '/') then
      return item
    end
  end
end

-- The keys that begin with `lead`. The first completion waits briefly for the catalog; later ones use the last catalog.
function M.complete(lead)
  local answered = false
  M.load(function()
    answered = true
  end)
  if #M.items == 0 then
    vim.wait(FIRST_WAIT, function()
      return answered
    end, 10)
  end
  local found = {}
  for _, item in ipairs(M.items) do
    if item.key ~= '' and vim.startswith(item.key, lead) then
      found[#found + 1] = item.key
    end
  end
  return found
end

return M
