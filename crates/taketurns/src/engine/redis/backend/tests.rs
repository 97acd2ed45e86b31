use super::*;

fn bound() -> ModuleBinding {
    ModuleBinding::Bound("0123456789abcdef".to_owned())
}

#[test]
fn a_lock_of_the_scripts_is_remembered_until_the_module_has_it() {
    let (memory, now) = (DialectMemory::default(), Instant::now());
    assert_eq!(memory.choose(b"k", Verb::Renew), Dialect::Module);
    assert_eq!(
        memory.handle_wrong_type(b"k", Dialect::Module, &bound(), now),
        WrongTypeAction::Switch
    );
    // A command that was sent before that was known gets the same answer.
    assert_eq!(
        memory.handle_wrong_type(b"k", Dialect::Module, &bound(), now),
        WrongTypeAction::Switch
    );
    for verb in [Verb::Acquire, Verb::Renew, Verb::View] {
        assert_eq!(memory.choose_at(b"k", verb, now), Dialect::Scripts);
    }
    assert_eq!(memory.choose_at(b"other", Verb::Renew, now), Dialect::Module);
    assert_eq!(
        memory.handle_wrong_type(b"k", Dialect::Scripts, &bound(), now),
        WrongTypeAction::Switch
    );
    assert_eq!(memory.choose_at(b"k", Verb::Renew, now), Dialect::Module);
}

#[test]
fn an_acquire_tries_the_module_again_and_nothing_else_does() {
    let (memory, now) = (DialectMemory::default(), Instant::now());
    memory.handle_wrong_type(b"k", Dialect::Module, &bound(), now);
    let later = now + TRY_AGAIN_AFTER;
    assert_eq!(memory.choose_at(b"k", Verb::Acquire, later), Dialect::Module);
    for verb in Verb::ALL.into_iter().filter(|verb| *verb != Verb::Acquire) {
        assert_eq!(memory.choose_at(b"k", verb, later), Dialect::Scripts);
    }
    memory.handle_wrong_type(b"k", Dialect::Module, &bound(), later);
    assert_eq!(memory.choose_at(b"k", Verb::Acquire, later), Dialect::Scripts, "not at once");
}

#[test]
fn without_a_module_it_is_looked_for_unless_it_is_not_wanted() {
    let (memory, now) = (DialectMemory::default(), Instant::now());
    let turn = |module| memory.handle_wrong_type(b"k", Dialect::Scripts, &module, now);
    assert_eq!(turn(ModuleBinding::Missing), WrongTypeAction::Verify(None));
    assert_eq!(
        turn(ModuleBinding::Denied("no".to_owned())),
        WrongTypeAction::Verify(Some("no".to_owned()))
    );
    assert!(
        matches!(turn(ModuleBinding::Off), WrongTypeAction::GiveUp(Some(why)) if why.contains("off"))
    );
}

#[test]
fn what_is_remembered_is_bounded() {
    let (memory, now) = (DialectMemory::default(), Instant::now());
    for number in 0..=KEYS_MAX {
        memory.handle_wrong_type(&number.to_le_bytes(), Dialect::Module, &bound(), now);
        assert!(lock(&memory.on_scripts).len() <= KEYS_MAX);
    }
}

fn wrong_type() -> Failure {
    Failure::WrongType("something else".to_owned())
}

#[test]
fn a_key_of_another_type_in_both_dialects_is_given_up() {
    let mut budget = RetryBudget::default();
    for _ in 0..SWITCHES_MAX {
        assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Switch), Ok(Retry::Now));
    }
    assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Switch), Err(wrong_type()));
}

#[test]
fn a_server_is_verified_once_to_find_another_dialect() {
    let mut budget = RetryBudget::default();
    let verify = Ok(Retry::After(Repair::Verify));
    assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Verify(None)), verify);
    assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Switch), Ok(Retry::Now));
    assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Verify(None)), Err(wrong_type()));
    // Verifications for other reasons are counted apart.
    assert_eq!(budget.retry(Failure::Reverify, || WrongTypeAction::Switch), verify);
}

#[test]
fn the_error_says_why_there_is_no_other_dialect() {
    for action in [
        WrongTypeAction::Verify(Some("denied".to_owned())),
        WrongTypeAction::GiveUp(Some("denied".to_owned())),
    ] {
        let mut budget = RetryBudget { has_verified_for_type: true, ..RetryBudget::default() };
        let Err(Failure::WrongType(why)) = budget.retry(wrong_type(), || action) else {
            panic!("it is not given up");
        };
        assert!(why.starts_with("something else") && why.contains("denied"), "{why}");
    }
}
