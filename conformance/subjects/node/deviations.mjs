// Which deviation this process has, if any: `--deviation NAME`, one of ../../deviations.toml. The code asks where it matters.

const at = process.argv.indexOf("--deviation");
export const DEVIATION = at < 0 ? "" : process.argv[at + 1];

/** Those that somebody asks for here. */
export const KNOWN = new Set(`
  acknowledges_early adds_metadata any_bytes_for_a_filter checks_the_epoch_after_each_put checks_the_epoch_of_one_put claims_without_a_mark commits_blindly
  counts_generations_from_zero creates_then_claims dates_entries_back drops_late_entries drops_puts drops_the_filter
  finishes_fenced_closes flushes_after_recovery flushes_at_close flushes_superseded_rows_away forgets_rows_at_flush
  halves_puts joins_batches keeps_epoch keeps_no_hint lists_before_it_writes lists_instead_of_probing
  marks_the_wal_twice names_a_spec_nobody_has numbers_entries_from_one oldest_row_wins raises_the_epoch_by_two
  reads_deleted_rows reads_merged_generations reads_with_old_memory replays_what_was_flushed retries_never reuses_the_folder_of_a_generation
  skips_a_position spells_hints_out splits_generations stores_recovered_rows_again steps_over_taken_positions takes_no_turns tells_the_manifest_of_each_put walks_on_hints writes_the_hint_first
  writes_plain_names writes_without_an_end_mark writes_without_an_epoch
`.trim().split(/\s+/));

if (DEVIATION && !KNOWN.has(DEVIATION)) {
  process.stderr.write(`there is no deviation ${DEVIATION}; there are ${[...KNOWN].join(", ")}\n`);
  process.exit(2);
}

/** Whether this process has the deviation `name`. */
export function deviates(name) {
  if (!KNOWN.has(name)) throw new Error(`the deviation ${name} is not in the list of those that are known`);
  return name === DEVIATION;
}
