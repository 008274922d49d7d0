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
    /// The state of the load. A recorded load counts as completed unless its call failed or was rejected.
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

/// Returns the attempts to load skills: recorded loads, and calls of skill tools.
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
}
