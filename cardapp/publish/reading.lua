-- Which files outside its own folder a run may read. lualatex runs this file before anything else (--lua).
--
-- In LuaTeX 1.18 (not yet in 1.15) openin_any=p holds for Lua's own functions (io.open, lfs.dir, ...), too. luaotfload is
-- written in Lua: without more it can read neither its Unicode tables nor a font, and the run ends with 255 before the
-- document begins. Those functions ask kpse.in_name_ok_silent_extended. LuaTeX 1.15 lacks it, checks no name that Lua code
-- opens, and needs nothing of this.

local is_allowed = kpse.in_name_ok_silent_extended
if not is_allowed then return end

local readable

-- The trees of TeX, and where a system keeps the fonts of all accounts and their configuration. Nothing in them is secret.
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
        -- Where a font really is, is found by looking at each folder above it.
        if begins_with(place, folder .. "/") or begins_with(folder .. "/", place) then return true end
    end
    return false
end
