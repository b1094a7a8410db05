-- Decides which files a run of lualatex may read outside its directory. lualatex executes this file first (option -lua).
--
-- With openin_any=p, LuaTeX 1.18 also restricts Lua's own functions, like io.open and lfs.dir. luaotfload is written in Lua,
-- so without this file it could read neither its Unicode tables nor a font, and the run would end with exit code 255 before
-- the document begins. These functions ask kpse.in_name_ok_silent_extended, which is replaced below. LuaTeX 1.15 has no such
-- function and does not restrict Lua, so nothing is replaced there.

local is_allowed = kpse.in_name_ok_silent_extended
if not is_allowed then return end

local readable

-- TeX's directories, and the system's directories with fonts and their configuration. They contain nothing secret.
local function readable_folders()
    local found = { "/etc/fonts", "/usr/share", "/usr/local/share" }
    for folder in (kpse.expand_path("$TEXMF") .. ":" .. kpse.expand_path("$OSFONTDIR")):gmatch("[^:]+") do
        if folder:sub(1, 1) == "/" then found[#found + 1] = folder end
    end
    return found
end

local function begins_with(text, start) return text:sub(1, #start) == start end

kpse.in_name_ok_silent_extended = function(name)
    if is_allowed(name) then return true end
    local place = name .. "/"
    if place:find("/../", 1, true) then return false end
    readable = readable or readable_folders()
    for _, folder in ipairs(readable) do
        -- The folders above a readable folder are allowed, too, because the search for a font's real path reads each of them.
        if begins_with(place, folder .. "/") or begins_with(folder .. "/", place) then return true end
    end
    return false
end
