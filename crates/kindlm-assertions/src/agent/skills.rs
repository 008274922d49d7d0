//! The skills that an agent loaded, from any source.

use kindlm_types::{Action, ActionState, ActionStatus, Event, Facts};
use serde_json::Value;

/// The tools by which agents load skills, ignoring case.
const TOOLS: [&str; 2] = ["skill", "load_skill"];
/// The arguments that can name the skill, by precedence.
const NAMES: [&str; 3] = ["skill", "name", "command"];

/// A skill that an agent loaded, or tried to load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load<'e> {
    pub(crate) skill: &'e str,
    /// The state of the load. A `skill.loaded` event counts as completed unless its call failed or was rejected.
    pub(crate) state: ActionState,
}

/// Returns the skill that a tool call loads; `None` if the tool loads no skills, or the call names no skill.
pub(crate) fn of_call<'e>(tool: &str, arguments: &'e Value) -> Option<&'e str> {
    let is_tool = TOOLS.iter().any(|it| it.eq_ignore_ascii_case(tool));
    let name = NAMES.iter().find_map(|key| arguments.get(*key)?.as_str());
    name.filter(|_| is_tool).map(plain)
}

/// Returns the name of a skill without spaces around it, and without the slash of a command such as `/review`.
pub(crate) fn plain(name: &str) -> &str {
    name.trim().trim_start_matches('/')
}

/// Returns true if a call failed or was rejected.
pub(crate) fn has_failed(state: ActionState) -> bool {
    matches!(state, ActionState::Ended(ActionStatus::Failed | ActionStatus::Rejected))
}

/// Returns the attempts to load skills: `skill.loaded` events, and calls of skill tools without such an event.
pub(crate) fn loads(events: &[Event]) -> Vec<Load<'_>> {
    const LOADED: ActionState = ActionState::Ended(ActionStatus::Completed);
    let mut actions: Vec<(Action<'_>, bool)> =
        Facts::from_events(events).actions.into_iter().map(|it| (it, false)).collect();
    let mut called = 0;
    let mut loads = Vec::new();
    for event in events {
        called += usize::from(matches!(event, Event::ActionCalled { .. }));
        let Event::SkillLoaded { skill, call_id } = event else { continue };
        let call = call_id.as_deref().and_then(|id| call_before(&mut actions, called, (id, skill)));
        let state = call.map_or(LOADED, |(action, is_recorded)| {
            *is_recorded = true;
            if has_failed(action.state) { action.state } else { LOADED }
        });
        loads.push(Load { skill: plain(skill), state });
    }
    let by_tool = actions
        .iter()
        .filter(|(_, is_recorded)| !is_recorded)
        .filter_map(|(it, _)| Some(Load { skill: of_call(it.name?, it.input)?, state: it.state }));
    loads.extend(by_tool);
    loads
}

/// Returns the call that loaded a skill, by call id and skill; `None` if no call has this id.
///
/// Several calls may share an id. The first of these calls that exists is returned:
///
/// 1. among the first `called` calls, the latest call with this id and this skill
/// 2. among the first `called` calls, the latest call with this id
/// 3. the first later call with this id
fn call_before<'a, 'e>(
    actions: &'a mut [(Action<'e>, bool)],
    called: usize,
    (id, skill): (&str, &str),
) -> Option<&'a mut (Action<'e>, bool)> {
    // An action without a name has a result, but no call event. `called` does not count such an action.
    let mut seen = 0;
    let (mut found, mut named) = (None, None);
    for (at, (action, _)) in actions.iter().enumerate() {
        let is_before = seen < called;
        seen += usize::from(action.name.is_some());
        if action.call_id != id {
            continue;
        }
        if is_before || found.is_none() {
            found = Some(at);
        }
        let loaded = action.name.and_then(|name| of_call(name, action.input));
        if is_before && loaded == Some(plain(skill)) {
            named = Some(at);
        }
    }
    actions.get_mut(named.or(found)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_successful_loads_count() {
        let events = json!([
            {"type": "skill.loaded", "skill": "told"},
            {"type": "action.called", "callId": "a", "name": "Skill", "input": {"command": "/broken"}},
            {"type": "skill.loaded", "skill": "broken", "callId": "a"},
            {"type": "action.result", "callId": "a", "status": "failed"},
            {"type": "action.called", "callId": "b", "name": "load_skill", "input": {"name": "good"}},
            {"type": "action.result", "callId": "b", "status": "completed"},
            {"type": "action.called", "callId": "c", "name": "SKILL", "input": {"skill": "open"}},
            {"type": "action.called", "callId": "d", "name": "read", "input": {"name": "no-skill"}},
        ]);
        let events: Vec<Event> = serde_json::from_value(events).unwrap();
        let found: Vec<(&str, &str)> =
            loads(&events).iter().map(|it| (it.skill, it.state.as_str())).collect();
        let expected = [
            ("told", "completed"),
            ("broken", "failed"),
            ("good", "completed"),
            ("open", "pending"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_with_the_same_id_are_separate_loads() {
        let call = |skill: &str| json!({"type": "action.called", "callId": "a", "name": "skill", "input": {"skill": skill}});
        let loaded = |skill: &str| json!({"type": "skill.loaded", "skill": skill, "callId": "a"});
        let result =
            |status: &str| json!({"type": "action.result", "callId": "a", "status": status});
        for (events, expected) in [
            (
                json!([
                    call("one"),
                    loaded("one"),
                    result("failed"),
                    call("two"),
                    loaded("two"),
                    result("completed")
                ]),
                vec![("one", "failed"), ("two", "completed")],
            ),
            (
                json!([
                    call("one"),
                    loaded("one"),
                    result("completed"),
                    call("two"),
                    loaded("two"),
                    result("failed")
                ]),
                vec![("one", "completed"), ("two", "failed")],
            ),
            (
                json!([
                    call("one"),
                    loaded("one"),
                    result("completed"),
                    call("two"),
                    result("completed")
                ]),
                vec![("one", "completed"), ("two", "completed")],
            ),
            (
                json!([
                    call("one"),
                    result("failed"),
                    call("two"),
                    result("completed"),
                    loaded("one"),
                    loaded("two")
                ]),
                vec![("one", "failed"), ("two", "completed")],
            ),
            (json!([loaded("one"), call("one"), result("failed")]), vec![("one", "failed")]),
        ] {
            let events: Vec<Event> = serde_json::from_value(events).unwrap();
            let found: Vec<(&str, &str)> =
                loads(&events).iter().map(|it| (it.skill, it.state.as_str())).collect();
            assert_eq!(found, expected);
        }
    }
}
