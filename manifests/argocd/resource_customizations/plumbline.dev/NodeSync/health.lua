hs = {status = "Progressing", message = "not reconciled yet"}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then return hs end
for _, c in ipairs(obj.status.conditions) do
  if c.type == "Ready" then
    hs.message = c.message
    if c.status == "True" then hs.status = "Healthy" end
  end
end
for _, c in ipairs(obj.status.conditions) do
  if c.type == "Stalled" and c.status == "True" then hs.status = "Degraded" end
end
if obj.spec.suspend then hs.status = "Suspended" end
return hs
