//! What the recipes of `docs/fencing.md` do when somebody comes between their steps, which a page that is read
//! from top to bottom never shows.

use crate::docs::page::Page;
use crate::docs::shell;

/// Types those blocks of the page that have one of these words in them, and then this.
fn run(words: &[&str], then: &str) {
    let blocks = Page::read("docs/fencing.md").blocks();
    let wanted = |text: &str| words.iter().any(|word| text.contains(word));
    let wanted: Vec<_> = blocks.into_iter().filter(|block| wanted(&block.text)).collect();
    assert_eq!(wanted.len(), words.len(), "{words:?}");
    let texts = wanted.iter().map(|block| block.text.as_str()).chain([then]);
    let text = texts.map(|text| format!("```sh\n{text}```\n")).collect();
    // Lines are no longer those of the page.
    shell::run(&Page { path: format!("docs/fencing.md with {words:?}"), text });
}

#[test]
fn a_newer_token_waits_until_the_transaction_of_an_older_one_is_over() {
    run(
        &["CREATE FUNCTION fence"],
        r#"
        psql -q "$DATABASE" <<'END' &
        BEGIN;
        SELECT fence('reports', 33) \g /dev/null
        \! touch admitted
        \! until [ -e go ]; do sleep 0.1; done
        COMMIT;
END
        until [ -e admitted ]; do sleep 0.1; done
        newer() { psql -qAt -c "SET lock_timeout = '500ms'" -c "SELECT fence('reports', 34)" "$DATABASE"; }
        if newer; then exit 1; fi
        touch go
        wait
        newer
        "#,
    );
}

#[test]
fn an_object_that_changed_between_the_read_and_the_write_is_read_again() {
    run(
        &["cat > put.sh"],
        r#"
        export S3_KEY=key S3_SECRET=secret CURL=$(type -P curl)
        sign=(--aws-sigv4 aws:amz:us-east-1:s3 --user "$S3_KEY:$S3_SECRET")
        curl -sS "${sign[@]}" -X PUT https://s3.example/reports
        echo old >old
        echo new >new
        cat >bin/curl <<'END'
#!/bin/bash
# Right before something is written, once, somebody else writes.
if [[ " $* " == *" -T "* && -e meanwhile ]]; then
  rm meanwhile
  TAKETURNS_TOKEN=34 ./put.sh "${@: -1}" new
fi
exec "$CURL" "$@"
END
        chmod +x bin/curl
        TAKETURNS_TOKEN=32 ./put.sh https://s3.example/reports/was-there old
        for name in was-there was-not-there; do
          touch meanwhile
          if TAKETURNS_TOKEN=33 ./put.sh https://s3.example/reports/$name old; then exit 1; fi
          test "$(curl -sS "${sign[@]}" https://s3.example/reports/$name)" = $'34\nnew'
        done
        "#,
    );
}

#[test]
fn a_file_is_compared_and_replaced_while_nobody_else_does() {
    run(
        &["cat > put-file.sh"],
        r#"
        flock daily.txt.lock bash -c '
          touch held
          until [ -e go ]; do sleep 0.1; done
          echo 34 >daily.txt.fence
          echo new >daily.txt' &
        until [ -e held ]; do sleep 0.1; done
        (code=0; TAKETURNS_TOKEN=33 ./put-file.sh daily.txt <<<old || code=$?; echo $code >code) &
        # It has time to do what it must not: to go on.
        for turn in {1..10}; do [ ! -e code ]; sleep 0.1; done
        touch go
        wait
        test "$(cat code daily.txt)" = $'1\nnew'
        "#,
    );
}
