//! Commands of which only some forms pass: those that look, or that concern the application's data.
//!
//! Invariant: a form that is not listed does not pass, so that one which a later server adds does not
//! change the store for everybody through the one credential that all clients of the port share.
//! (`docs/decisions/0013-no-administration-through-the-port.md`)

use super::{Args, Class, Row, bare};

/// A form that does not pass.
static REFUSED: Row = bare("", Class::Refused);

/// The first word behind the name, of those that pass. In the order of the alphabet.
static FORMS: &[(&str, &[&str])] = &[
    (
        "CLUSTER",
        &[
            "COUNT-FAILURE-REPORTS",
            "COUNTKEYSINSLOT",
            "GETKEYSINSLOT",
            "HELP",
            "INFO",
            "KEYSLOT",
            "LINKS",
            "MYID",
            "MYSHARDID",
            "NODES",
            "REPLICAS",
            "SHARDS",
            "SLAVES",
            "SLOT-STATS",
            "SLOTS",
        ],
    ),
    ("COMMANDLOG", &["GET", "HELP", "LEN"]),
    ("CONFIG", &["GET", "HELP"]),
    ("FUNCTION", &["DELETE", "DUMP", "FLUSH", "HELP", "LIST", "LOAD", "RESTORE", "STATS"]),
    ("LATENCY", &["DOCTOR", "GRAPH", "HELP", "HISTOGRAM", "HISTORY", "LATEST"]),
    ("MEMORY", &["DOCTOR", "HELP", "MALLOC-STATS", "STATS", "USAGE"]),
    ("MODULE", &["HELP", "LIST"]),
    ("SCRIPT", &["EXISTS", "FLUSH", "HELP", "LOAD", "SHOW"]),
    ("SLOWLOG", &["GET", "HELP", "LEN"]),
];

/// The row of a command in this form; `row` is the one of its name.
pub(super) fn of(row: &'static Row, args: &Args<'_>) -> &'static Row {
    let Ok(at) = FORMS.binary_search_by(|(name, _)| (*name).cmp(row.name)) else { return row };
    // Alone it is refused by the store, for its arguments.
    let passes = args.len() < 2 || FORMS[at].1.iter().any(|form| args.is(1, form));
    let passes = passes && !(row.name == "CONFIG" && args.is(1, "GET") && asks_for_secrets(args));
    if passes { row } else { &REFUSED }
}

/// Whether CONFIG GET could tell a password of the store.
fn asks_for_secrets(args: &Args<'_>) -> bool {
    let has = |text: &[u8], word: &[u8]| {
        text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
    };
    args.from(2).any(|name| {
        name.iter().any(|byte| b"*?[\\".contains(byte)) || has(name, b"pass") || has(name, b"auth")
    })
}

/// What a command that does not pass is answered.
pub(crate) fn refusal(args: &Args<'_>) -> String {
    let word = |at: usize| {
        let shown: Vec<u8> = args.get(at).iter().copied().take(64).collect();
        String::from_utf8_lossy(&shown).to_ascii_uppercase()
    };
    let name = word(0);
    let form = FORMS.iter().any(|(known, _)| *known == name) && args.len() > 1;
    let what = match (form, name == "CONFIG" && args.is(1, "GET")) {
        (_, true) => "CONFIG GET of a pattern or of a password".to_owned(),
        (true, _) => format!("{name} {}", word(1)),
        (false, _) => name,
    };
    format!("ERR {what} is not supported through the guard")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tests::{class, spans};

    #[test]
    fn the_forms_are_in_order_so_that_they_can_be_searched() {
        for two in FORMS.windows(2) {
            assert!(two[0].0 < two[1].0, "{} before {}", two[0].0, two[1].0);
        }
        for (name, forms) in FORMS {
            assert_eq!(crate::commands::named(name.as_bytes()).name, *name, "it has a row");
            assert!(forms.is_sorted() && forms.contains(&"HELP"), "{name}");
        }
    }

    #[test]
    fn what_looks_passes_and_what_changes_does_not() {
        for (name, forms) in FORMS {
            assert_eq!(class(name), Class::Meaning, "{name}");
            for form in *forms {
                assert_eq!(class(&format!("{name} {form}")), Class::Meaning, "{name} {form}");
                let small = format!("{name} {form}").to_lowercase();
                assert_eq!(class(&small), Class::Meaning, "{small}");
            }
            assert_eq!(class(&format!("{name} WHATEVER-COMES")), Class::Refused, "{name}");
            assert_eq!(class(&format!("{name} ")), Class::Refused, "{name} and nothing");
        }
        let changes = "\
            CLUSTER ADDSLOTS|CLUSTER BUMPEPOCH|CLUSTER DELSLOTS|CLUSTER FAILOVER|CLUSTER FORGET\
            |CLUSTER FLUSHSLOTS|CLUSTER MEET|CLUSTER REPLICATE|CLUSTER RESET|CLUSTER SAVECONFIG\
            |CLUSTER SETSLOT|COMMANDLOG RESET|CONFIG REWRITE|CONFIG RESETSTAT|CONFIG SET\
            |config set maxmemory 1|FUNCTION KILL|LATENCY RESET|MEMORY PURGE|MODULE LOAD\
            |MODULE LOADEX|MODULE UNLOAD|SCRIPT DEBUG|SCRIPT KILL|SLOWLOG RESET";
        for line in changes.split('|') {
            assert_eq!(class(line), Class::Refused, "{line}");
        }
    }

    #[test]
    fn config_get_tells_no_password() {
        for line in [
            "CONFIG GET *",
            "config get req?irepass",
            "CONFIG GET requirepass",
            "CONFIG GET save MASTERAUTH",
            "CONFIG GET primaryauth",
            "CONFIG GET tls-key-file-pass",
            "CONFIG GET [r]equirepas[s]",
            "CONFIG GET maxmemory\\",
        ] {
            assert_eq!(class(line), Class::Refused, "{line}");
        }
        for line in ["CONFIG GET maxmemory", "config get save appendonly", "CONFIG GET"] {
            assert_eq!(class(line), Class::Meaning, "{line}");
        }
    }

    #[test]
    fn the_answer_names_what_was_asked() {
        let refusal = |line: &str| refusal(&Args::new(line.as_bytes(), &spans(line)));
        let not = |what: &str| format!("ERR {what} is not supported through the guard");
        assert_eq!(refusal("replicaof no one"), not("REPLICAOF"));
        assert_eq!(refusal("config set a b"), not("CONFIG SET"));
        assert_eq!(refusal("CONFIG GET *"), not("CONFIG GET of a pattern or of a password"));
        let long = "x".repeat(1000);
        assert_eq!(refusal(&format!("SCRIPT {long}")).len(), not("SCRIPT ").len() + 64);
    }
}
