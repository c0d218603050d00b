-- What have people done about a problem?
-- param group: group_key of the problem
-- The end of a silence has no group. Ignoring a problem makes a silence, too.
SELECT at, action, refused, if(actor_name = '', actor, actor_name) AS who, via, ends_at, comment
FROM alert_actions FINAL
WHERE (group_key = {group:String} OR silence_id IN (SELECT silence_id FROM alert_actions WHERE group_key = {group:String} AND silence_id != ''))
    AND (action, comment) != ('silence', 'problem ignored')
ORDER BY at DESC, id
LIMIT 100
