//! A rejected change fails alone: the other changes of the commit are written and counted.

use std::sync::Arc;

use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, Outcome};
use toolpost::store::journal::{Change, JournalError};

use super::{ACCEPTED, Log, SETTLED, WHOLE, ended, life, whole};
use crate::support::{Backend, bounded};

/// Opens a log whose database rejects every record of the tool `poison`.
async fn poisoned(backend: Backend) -> Log {
    let log = Log::open(backend).await;
    log.sql(match backend {
        Backend::Sqlite => {
            "CREATE TRIGGER poison BEFORE INSERT ON tool_calls WHEN NEW.tool = 'poison' \
             BEGIN SELECT RAISE(ABORT, 'refused'); END"
        }
        Backend::Postgres => {
            "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'refused'; END $$; \
             CREATE TRIGGER poison BEFORE INSERT ON tool_calls FOR EACH ROW WHEN (NEW.tool = 'poison') \
             EXECUTE FUNCTION refuse()"
        }
    })
    .await;
    log
}

on_both_databases!(
    async fn second_end_is_rejected_and_counts_nothing(backend: Backend) {
        let mut log = Log::open(backend).await;
        let running = log.call("echo");
        let first = ended(&running, Outcome::text("first"), 5);
        log.write(&first, WHOLE).await.unwrap();
        let events = log.events_of(&first).await;
        let second = ended(&running, Outcome::text("second"), 900);
        assert_eq!(log.write(&second, SETTLED).await, Err(JournalError::Fenced));
        assert_eq!(log.stored(&first).await.outcome, first.outcome);
        assert_eq!(log.events_of(&first).await, events);
        assert_eq!((log.counts("echo").await, log.commits().await), ((1, 1, 0), 1));
        assert_eq!(log.take_published().await, events);
    }
);

on_both_databases!(
    async fn node_that_lost_a_call_cannot_change_it(backend: Backend) {
        let log = Log::open(backend).await;
        let waiting = log.call("echo");
        log.write(&waiting, ACCEPTED).await.unwrap();
        log.sql("UPDATE tool_calls SET node = 'another'").await;
        let own = ended(&waiting, Outcome::text("own"), 5);
        assert_eq!(log.write(&own, SETTLED).await, Err(JournalError::Fenced));
        assert_eq!((log.counts("echo").await, log.commits().await), ((0, 0, 0), 1));
        let others = Call::from(CallRecord { node: "another".into(), ..own.into_record() });
        log.write(&others, SETTLED).await.unwrap();
        assert_eq!(log.stored(&others).await.outcome, others.outcome);
    }
);

on_both_databases!(
    async fn neighbours_of_a_second_end_are_written_and_counted(backend: Backend) {
        let mut log = Log::open(backend).await;
        let running = log.call("echo");
        log.write(&ended(&running, Outcome::text("first"), 5), WHOLE).await.unwrap();
        let second = Change::new(Arc::new(ended(&running, Outcome::text("second"), 9)), SETTLED);
        let (before, after, waiting) = (
            ended(&log.call("echo"), Outcome::text("x"), 1),
            ended(&log.call("echo"), Outcome::text("y"), 1),
            log.call("w"),
        );
        let ends = log
            .together(vec![whole(&before), second, whole(&after), Change::new(Arc::new(waiting.clone()), ACCEPTED)])
            .await;
        assert_eq!(ends, [Ok(()), Err(JournalError::Fenced), Ok(()), Ok(())]);
        assert_eq!(log.counts("echo").await, (3, 3, 0));
        assert_eq!(log.stored(&running).await.outcome.as_ref().unwrap().output, "first");
        assert_eq!(log.events_of(&waiting).await.len(), 2);
        let published = log.read_back(0, 1).await;
        assert_eq!(log.take_published().await, published);
    }
);

on_both_databases!(
    async fn second_end_in_the_commit_of_the_first_is_rejected(backend: Backend) {
        let log = Log::open(backend).await;
        let running = log.call("echo");
        let first = whole(&ended(&running, Outcome::text("first"), 5));
        let second = Change::new(Arc::new(ended(&running, Outcome::text("second"), 9)), SETTLED);
        let neighbour = ended(&log.call("echo"), Outcome::text("x"), 1);
        let ends = log.together(vec![first, second, whole(&neighbour)]).await;
        assert_eq!(ends, [Ok(()), Err(JournalError::Fenced), Ok(())]);
        assert_eq!(log.counts("echo").await, (2, 2, 0));
        assert_eq!(log.stored(&running).await.outcome.as_ref().unwrap().output, "first");
        assert_eq!(log.events_of(&running).await.len(), 5);
    }
);

on_both_databases!(
    async fn changes_of_unstored_calls_leave_nothing(backend: Backend) {
        let log = Log::open(backend).await;
        let missing = [log.call("echo"), log.call("echo")].map(|call| ended(&call, Outcome::text("x"), 1));
        let neighbour = ended(&log.call("echo"), Outcome::text("y"), 1);
        let [one, other] = missing.clone().map(|call| Change::new(Arc::new(call), SETTLED));
        let ends = log.together(vec![one, other, whole(&neighbour)]).await;
        assert_eq!(ends, [Err(JournalError::Refused), Err(JournalError::Refused), Ok(())]);
        for call in &missing {
            assert!(log.store.call(call.id).await.unwrap().is_none());
        }
        assert_eq!(log.counts("echo").await, (1, 1, 0));
    }
);

on_both_databases!(
    async fn change_rejected_by_the_database_fails_alone(backend: Backend) {
        let mut log = poisoned(backend).await;
        let calls: Vec<_> = (0..40)
            .map(|n| ended(&log.call(if n % 13 == 5 { "poison" } else { "echo" }), Outcome::text("x"), 1))
            .collect();
        let ends = log.together(calls.iter().map(whole).collect()).await;
        for (call, end) in calls.iter().zip(ends) {
            let (is_poison, stored) = (&*call.name == "poison", log.store.call(call.id).await.unwrap());
            assert_eq!(end, if is_poison { Err(JournalError::Refused) } else { Ok(()) });
            assert_eq!(stored.is_some(), !is_poison);
        }
        assert_eq!((log.counts("echo").await, log.counts("poison").await), ((37, 37, 0), (0, 0, 0)));
        let stored = log.read_back(0, 3).await;
        assert_eq!(log.take_published().await, stored);
    }
);

on_both_databases!(
    async fn rejected_change_does_not_delay_later_ones(backend: Backend) {
        let log = poisoned(backend).await;
        let (changes, _) = life(&log.call("poison"));
        for change in changes {
            let end = bounded("a refusal", log.journal.write(change)).await;
            assert_eq!(end, Err(JournalError::Refused));
        }
        log.write(&ended(&log.call("echo"), Outcome::text("x"), 1), WHOLE).await.unwrap();
        assert!(log.journal.is_healthy());
    }
);
