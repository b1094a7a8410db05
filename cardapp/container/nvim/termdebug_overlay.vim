" Mends two faults in how termdebug takes gdb's MI records, without touching what it does with them:
" - Neovim hands out what it read in pieces; a record cut in two was lost, and with it the PC sign (0.7.2).
" - Every ignored hit of a visible breakpoint was announced; a thousand of them ended in a hit-enter prompt.
" Its handler is wrapped, whatever its version: `funcref` keeps the old body where `function` would find the new one.
let s:script = filter(split(execute('scriptnames'), "\n"), {_, line -> line =~# '/termdebug\.vim$'})
if empty(s:script)
  finish
endif
let s:name = '<SNR>' .. matchstr(s:script[0], '\d\+') .. '_CommOutput'
if !exists('*' .. s:name)
  finish
endif

let s:Handle = funcref(s:name)
let s:rest = ''
let s:seen = {}

" True for a =breakpoint-modified that differs from the last one of its breakpoint in its counters alone.
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
  " An answer to :Evaluate is there to be read; every other message must not fill the screen and wait for a key.
  let silently = record =~# '^\^done,value=' ? '' : 'silent '
  try
    execute silently .. 'call s:Handle(a:job, [record], a:event)'
  catch
    echo strpart(v:exception, 0, &columns - 1)
  endtry
endfunc

" Neovim's channel lines: the first continues the last one of the call before, the last may be cut.
execute 'func! ' .. s:name .. '(job, msgs, event)' .. "\n"
  \ .. '  call ' .. expand('<SID>') .. "Records(a:job, a:msgs, a:event)\n"
  \ .. 'endfunc'

func s:Records(job, msgs, event)
  if empty(a:msgs) || a:msgs ==# ['']
    let s:rest = ''
    return
  endif
  let lines = [s:rest .. a:msgs[0]] + a:msgs[1:]
  let s:rest = lines[-1]
  for record in lines[:-2]
    call s:Take(a:job, record, a:event)
  endfor
endfunc
