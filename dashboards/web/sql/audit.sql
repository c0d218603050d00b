-- Who read texts, ran SQL, exported, erased, or changed something?
-- since 7 days
-- param who = : only of this person; a part of the name is enough
-- param what = : only this action
-- param target = : only on this conversation, call, alert, silence, problem, token or user
-- param outcome = : only with this outcome
SELECT at, person, verified, role, action, target, detail, route, via, address, outcome, status, subject, id
FROM audit FINAL
WHERE at >= {since:DateTime64(9, 'UTC')} AND at < {until:DateTime64(9, 'UTC')}
    AND (positionCaseInsensitiveUTF8(person, {who:String}) > 0 OR subject = {who:String})
    AND {what:String} IN ('', action)
    AND {target:String} IN ('', target)
    AND {outcome:String} IN ('', outcome)
ORDER BY at DESC, id
LIMIT 200
