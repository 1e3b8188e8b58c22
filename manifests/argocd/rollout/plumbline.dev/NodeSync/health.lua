hs = {status = "Progressing", message = "not reconciled yet"}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then return hs end
local is = {}
for _, c in ipairs(obj.status.conditions) do is[c.type] = c end
if is.Ready then hs.message = is.Ready.message end
if is.Ready and is.Ready.status == "True" and is.RolledOut then
  hs.message = is.RolledOut.message
  if is.RolledOut.status == "True" then hs.status = "Healthy" end
  if is.RolledOut.reason == "RolloutBraked" or is.RolledOut.reason == "RolloutFailing" or is.RolledOut.reason == "RolloutTimedOut" then hs.status = "Degraded" end
end
if is.Stalled and is.Stalled.status == "True" then hs.status = "Degraded" end
if is.Promoted and is.Promoted.status == "False" then hs = {status = "Progressing", message = is.Promoted.message} end
if obj.spec.suspend then hs.status = "Suspended" end
return hs
