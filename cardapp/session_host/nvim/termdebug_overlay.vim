" Fixes three bugs in how termdebug receives gdb's MI records:
" - Neovim delivers output in pieces. termdebug of 0.7.2 loses a record that is cut in two, and with the record the PC
"   sign. termdebug of 0.10 joins the pieces in its JobOutCallback and passes complete records.
" - termdebug keeps the PC sign when the program is killed or detached while it is stopped.
" - termdebug shows a message for each ignored hit of a visible breakpoint. Many messages lead to a hit-enter prompt.
" The script replaces termdebug's handler by a function that calls the old one. `funcref` refers to the old function, but
" `function` would find the new one by its name.
let s:script = filter(split(execute('scriptnames'), "\n"), {_, line -> line =~# '/termdebug\.vim$'})
if empty(s:script)
  finish
endif
let s:prefix = '<SNR>' .. matchstr(s:script[0], '\d\+') .. '_'
let s:name = s:prefix .. 'CommOutput'
if !exists('*' .. s:name)
  finish
endif

let s:Handle = funcref(s:name)
let s:gets_complete_records = exists('*' .. s:prefix .. 'JobOutCallback')
" The group of the PC sign, read from termdebug's code: none in 0.7.2, TermDebug in 0.10. If our sign were in another
" group, it would stay when termdebug moves its sign.
let g:card_sign_group = matchstr(execute('function ' .. s:prefix .. 'HandleCursor'), "sign_place(s:pc_id, '\\zs[^']*")
let s:rest = ''
let s:seen = {}

" Whether `record` is a =breakpoint-modified that differs only in counters from the previous one of this breakpoint.
func s:IsCount(record)
  if a:record !~# '^=breakpoint-modified,'
    return 0
  endif
  let number = matchstr(a:record, 'number="\zs[^"]*')
  let without = substitute(a:record, ',\(times\|ignore\)="\d*"', '', 'g')
  let known = get(s:seen, number, '') ==# without
  let s:seen[number] = without
  return known
endfunc

func s:Take(job, record, event)
  let record = substitute(a:record, '^[\r\n]\+', '', '')
  if record =~# '^\r\?$' || s:IsCount(record)
    return
  endif
  " The answer to :Evaluate is shown. Other messages must not fill the screen and make Neovim wait for a key.
  let silently = record =~# '^\^done,value=' ? '' : 'silent '
  try
    execute silently .. 'call s:Handle(a:job, [record], a:event)'
  catch
    echo strpart(v:exception, 0, &columns - 1)
  endtry
  if record =~# '^=thread-group-exited,'
    lua require('card.debugger').unmark()
  endif
endfunc

execute 'func! ' .. s:name .. '(job, msgs, event)' .. "\n"
  \ .. '  call ' .. expand('<SID>') .. "Records(a:job, a:msgs, a:event)\n"
  \ .. 'endfunc'

func s:Records(job, msgs, event)
  for record in s:gets_complete_records ? a:msgs : s:Join(a:msgs)
    call s:Take(a:job, record, a:event)
  endfor
endfunc

" The complete records in Neovim's channel lines. The first line continues the last line of the previous call. The last
" line may be incomplete.
func s:Join(msgs)
  if empty(a:msgs) || a:msgs ==# ['']
    let s:rest = ''
    return []
  endif
  let lines = [s:rest .. a:msgs[0]] + a:msgs[1:]
  let s:rest = lines[-1]
  return lines[:-2]
endfunc
