//! The skills that an agent loaded, from any source.

use kindlm_types::{Action, ActionState, ActionStatus, Event, Facts};
use serde_json::Value;

/// The tools by which agents load skills; upper and lower case do not matter.
const TOOLS: [&str; 2] = ["skill", "load_skill"];
/// The arguments that name the skill, in the order in which they are believed.
const NAMES: [&str; 3] = ["skill", "name", "command"];

/// A skill that an agent loaded, or tried to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load<'e> {
    pub(crate) skill: &'e str,
    /// How far it came. What was told as loaded is, unless the call that loaded it went wrong.
    pub(crate) state: ActionState,
}

/// The skill that a call of a tool is for, if it is one of the tools for skills.
pub(crate) fn of_call<'e>(tool: &str, arguments: &'e Value) -> Option<&'e str> {
    let is_tool = TOOLS.iter().any(|it| it.eq_ignore_ascii_case(tool));
    let name = NAMES.iter().find_map(|key| arguments.get(*key)?.as_str());
    name.filter(|_| is_tool).map(plain)
}

/// A skill's name without the slash that it is called with.
pub(crate) fn plain(name: &str) -> &str {
    name.trim().trim_start_matches('/')
}

/// True if a call went wrong, or was not allowed.
pub(crate) fn has_failed(state: ActionState) -> bool {
    matches!(state, ActionState::Ended(ActionStatus::Failed | ActionStatus::Rejected))
}

/// The skills that were loaded: those that agents tell as such, and those that they load through a tool.
pub(crate) fn loads(events: &[Event]) -> Vec<Load<'_>> {
    const LOADED: ActionState = ActionState::Ended(ActionStatus::Completed);
    let actions = Facts::of(events).actions;
    let call = |id: &str| actions.iter().find(|it: &&Action<'_>| it.call_id == id);
    let mut told = Vec::new();
    let mut loads = Vec::new();
    for event in events {
        let Event::SkillLoaded { skill, call_id } = event else { continue };
        let call = call_id.as_deref().and_then(call);
        told.extend(call.map(|it| it.call_id));
        let state = call.map(|it| it.state).filter(|it| has_failed(*it)).unwrap_or(LOADED);
        loads.push(Load { skill: plain(skill), state });
    }
    let by_tool = actions
        .iter()
        .filter(|it| !told.contains(&it.call_id))
        .filter_map(|it| Some(Load { skill: of_call(it.name?, it.input)?, state: it.state }));
    loads.extend(by_tool);
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_came_to_a_good_end_is_loaded() {
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
}
