#!/bin/sh
# Checks the rules in the models beside this script with spin: every state of
# each bounded world, and a counterexample for every rule that is dropped.
# Prints a table and compares it with that of results.txt: a run that is complete
# there must be complete, and the numbers of states must be equal for the same
# version of spin.
#
#   run.sh             all of it; MODEL=quick leaves out the long runs
#   run.sh show NAME   the counterexample of one run, step by step
#
# Installs spin and gcc if the system's packages allow it. Without them it
# reports what is not covered and succeeds, unless REDMUX_REQUIRE_MODEL=1. LIMIT
# is the time limit of a run in seconds, JOBS the number of runs at once.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd) || exit
document=$here/results.txt
limit=${LIMIT:-900}

# name | model | kind of search | purpose | clients and attempts | macros | suite
# "complete" visits every state; "counterexample" looks for the shortest,
# breadth first, and "deep" for any, where that is far away; "bits" is bit-state
# hashing, which may miss states. Suite: quick is in both.
runs() {
	sed 's/ *| */|/g' <<'END'
acquire            | exclusion | complete       | exclusion | 2, 2 and 2 attempts       | -DTRIES0=2 -DTRIES1=2                                     | full
acquire-longer     | exclusion | complete       | exclusion | 2, 2 and 1 attempts       | -DTRIES0=2 -DTTL0=4 -DTTL1=4                              | quick
restart            | exclusion | complete       | exclusion | 2, 2 and 1 attempts       | -DTRIES0=2 -DCRASHES=1                                    | full
restart-longer     | exclusion | complete       | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DCRASHES=1 -DTTL0=4 -DTTL1=4                  | quick
restart-twice      | exclusion | complete       | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DCRASHES=2 -DTTL0=3 -DTTL1=3                  | quick
demoted            | exclusion | complete       | exclusion | 2, 2 and 1 attempts       | -DTRIES0=2 -DDEMOTIONS=1                                  | full
demoted-twice      | exclusion | complete       | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DDEMOTIONS=2 -DTTL0=4 -DTTL1=4                | quick
demoted-heal       | exclusion | complete       | exclusion, no gap | 2, 1 attempt each | -DTRIES0=1 -DEXTENDS=1 -DHEAL -DDEMOTIONS=1               | quick
demoted-restart    | exclusion | complete       | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DDEMOTIONS=1 -DCRASHES=1                      | quick
extend             | exclusion | complete       | exclusion, no gap | 2, 1 attempt each | -DTRIES0=1 -DEXTENDS=1                                    | quick
extend-other-ttl   | exclusion | complete       | exclusion, no gap | 2, 1 attempt each | -DTRIES0=1 -DEXTENDS=1 -DTTL0=5 -DTTL1=3 -DTTLX=2         | quick
extend-restart     | exclusion | complete       | exclusion, no gap | 2, 1 attempt each | -DTRIES0=1 -DEXTENDS=1 -DCRASHES=1 -DTTL0=3 -DTTL1=4      | quick
heal-restart       | exclusion | complete       | exclusion, no gap | 2, 1 attempt each | -DTRIES0=1 -DEXTENDS=2 -DHEAL -DCRASHES=1                 | full
five               | exclusion | complete       | exclusion | 2, 1 attempt each         | -DN=5 -DTRIES0=1                                          | quick
five-restart       | exclusion | complete       | exclusion | 2, 1 attempt each         | -DN=5 -DTRIES0=1 -DCRASHES=1                              | full
one-holds          | orphans   | complete       | orphans   | 1, 2 attempts             | -DTRIES=2                                                 | quick
one-breaks         | orphans   | complete       | orphans   | 1, 2 attempts             | -DTRIES=2 -DBREAKS=3 -DREFUSALS=2                         | full
same-set           | deployment | complete       | agreement, end   | 2 of one set              | -DCRASHES=1 -DCUTS=1                                      | quick
same-set-emptied   | deployment | complete       | agreement, end   | 2 of one set              | -DCRASHES=1 -DEMPTIED=1 -DOVER                            | quick
same-set-anytime   | deployment | complete       | agreement, end   | 2 of one set              | -DCRASHES=1 -DEMPTIED=1 -DANYTIME -DMADE=7                | full
same-set-three     | deployment | complete       | agreement, end   | 3 of one set              | -DCLIENTS=3 -DCRASHES=2                                   | quick
same-set-longer    | deployment | complete       | agreement, end   | 2 of one set              | -DCRASHES=1 -DCUTS=2                                      | full
one-shared         | deployment | complete       | agreement, end   | 2, ABC and CDE            | -DONE_SHARED -DEMPTIED=1 -DCRASHES=1                      | quick
one-shared-cut     | deployment | complete       | agreement, end   | 2, ABC and CDE            | -DONE_SHARED -DEMPTIED=1 -DCRASHES=1 -DCUTS=1             | full
one-shared-three   | deployment | complete       | agreement, end   | 3, ABC, CDE and ABC       | -DONE_SHARED -DCLIENTS=3                                  | full
one-shared-lost    | deployment | complete       | agreement after looks | 2, ABC and CDE       | -DONE_SHARED -DEMPTIED=1 -DOVER -DLOOKED -DNO_JUDGE       | quick
two-shared         | deployment | complete       | agreement, end   | 2, ABC and BCD            | -DTWO_SHARED -DEMPTIED=1 -DOVER -DCRASHES=1               | quick
two-shared-cut     | deployment | complete       | agreement, end   | 2, ABC and BCD            | -DTWO_SHARED -DCRASHES=1 -DCUTS=1                         | quick
two-shared-late    | deployment | complete       | agreement, end   | 2, ABC and BCD            | -DTWO_SHARED -DEMPTIED=1 -DOVER -DCUTS=1                  | full
two-shared-three   | deployment | complete       | agreement, end   | 3, ABC, BCD and ABC       | -DTWO_SHARED -DCLIENTS=3 -DCRASHES=1                      | full
two-shared-anytime | deployment | complete       | agreement, end   | 2, ABC and BCD            | -DTWO_SHARED -DEMPTIED=1 -DANYTIME -DCRASHES=1 -DMADE=7   | full
three-sets         | deployment | complete       | agreement        | 3, ABC, CDE and BDE       | -DTHREE_SETS -DCLIENTS=3 -DNO_JUDGE                       | full
inside             | deployment | complete       | agreement, end   | 2, ABC and ABCDE          | -DINSIDE -DCRASHES=1                                      | quick
inside-emptied     | deployment | complete       | agreement, end   | 2, ABC and ABCDE          | -DINSIDE -DEMPTIED=1 -DOVER                               | full
inside-cut         | deployment | complete       | agreement, end   | 2, ABC and ABCDE          | -DINSIDE -DCUTS=1                                         | full
members            | members   | complete       | quorums meet | 1 operator                | -DLISTS=4                                                 | quick
members-emptied    | members   | complete       | quorums meet | 1 operator                | -DEMPTIED=1                                               | quick
members-followed   | members   | complete       | quorums meet | 2 operators, one after the other | -DDEATHS=1                                         | quick
members-two        | members   | complete       | quorums meet | 2 operators, 2 members    | -DOPS=2 -DFIRST=3                                         | full
members-two-of-three | members | bits           | quorums meet | 2 operators               | -DOPS=2                                                   | full
members-grow       | members   | complete       | quorums meet | 1 operator, 3 to 5 members | -DNODES=5                                                | quick
debut              | debut     | complete       | exclusion | 2 of one set              | -DCRASHES=3 -DFLUSHES=1                                   | quick
debut-promoted     | debut     | complete       | exclusion | 2 of one set              | -DCRASHES=2 -DFAILOVERS=1 -DFLUSHES=1                     | quick
debut-one-shared   | debut     | complete       | exclusion | 2, ABC and CDE            | -DONE_SHARED -DCRASHES=2 -DFAILOVERS=1                    | quick
debut-two-shared   | debut     | complete       | exclusion | 2, ABC and BCD            | -DTWO_SHARED -DCRASHES=2 -DFAILOVERS=1                    | quick
debut-joined       | debut     | complete       | exclusion | 3, ABC, CDE and CDE       | -DONE_SHARED -DCLIENTS=3 -DCRASHES=1                      | quick
debut-joined-two   | debut     | complete       | exclusion | 3, ABC, BCD and BCD       | -DTWO_SHARED -DCLIENTS=3 -DCRASHES=2                      | full
numbers            | order     | complete       | order     | 3 attempts                | -DATTEMPTS=3                                              | quick
numbers-lost       | order     | complete       | order     | 3 attempts                | -DCRASHES=1                                               | quick
numbers-lost-twice | order     | complete       | order     | 3 attempts                | -DCRASHES=2                                               | full
upgrade            | readwrite | complete       | readers or one writer | 2, upgrading reader, writer   | -DUPGRADE                                  | quick
upgrade-readers    | readwrite | complete       | readers or one writer | 2, upgrading reader, reader   | -DUPGRADE -DSECOND_READS                   | full
upgrade-longer     | readwrite | complete       | readers or one writer | 2, upgrading reader, writer   | -DUPGRADE -DTTL=4                          | full
upgrade-restart    | readwrite | complete       | readers or one writer | 2, upgrading reader, writer   | -DUPGRADE -DCRASHES=1                      | full
upgrade-three      | readwrite | complete       | readers or one writer | 3, upgrading reader, writer, reader | -DUPGRADE -DCLIENTS=3 -DTHIRD_READS -DTTL=2 | full
upgrade-ordered    | readwrite | complete       | the same, orphans     | 2, upgrading reader, writer   | -DUPGRADE -DORDERED                        | quick
downgrade          | readwrite | complete       | readers or one writer | 2, downgrading writer, reader | -DDOWNGRADE -DSECOND_READS                 | quick
downgrade-writers  | readwrite | complete       | readers or one writer | 2, downgrading writer, writer | -DDOWNGRADE -DTTL=4                        | quick
downgrade-restart  | readwrite | complete       | readers or one writer | 2, downgrading writer, writer | -DDOWNGRADE -DCRASHES=1                    | quick
downgrade-three    | readwrite | complete       | readers or one writer | 3, downgrading writer, reader, writer | -DDOWNGRADE -DCLIENTS=3 -DSECOND_READS -DTTL=2 | full
downgrade-ordered  | readwrite | complete       | the same, orphans     | 2, downgrading writer, writer | -DDOWNGRADE -DORDERED                      | quick
failover           | failover  | complete       | exclusion, no gap | 3, 1 attempt each | -DCLIENTS=3 -DL=2 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL         | quick
failover-restart   | failover  | complete       | exclusion, no gap | 2, 1 attempt each | -DL=2 -DFAILOVERS=2 -DCRASHES=1 -DEXTENDS=1 -DHEAL         | quick
failover-stopped   | failover  | complete       | exclusion, no gap | 3, 1 attempt each | -DCLIENTS=3 -DL=2 -DDOUBLE=1 -DSTOPS=1 -DEXTENDS=1 -DHEAL  | quick
failover-no-double | failover  | complete       | exclusion, no gap | 3, 1 attempt each | -DCLIENTS=3 -DL=0 -DFAILOVERS=2 -DEXTENDS=2 -DHEAL         | quick
failover-skew      | failover  | complete       | exclusion, no gap | 2, 1 attempt each | -DL=1 -DFAILOVERS=3 -DEXTENDS=2 -DHEAL -DSKEW=2            | quick
failover-of-three  | failover  | complete       | exclusion, no gap | 2, 1 attempt each | -DBEHIND=3 -DL=2 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL          | quick
failover-majority  | failover  | complete       | exclusion, no gap | 2, 1 attempt each | -DMAJORITY -DBEHIND=3 -DL=2 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL | quick
failover-beside    | failover  | complete       | exclusion | 2, 1 attempt each         | -DN=3 -DL=2                                                | quick
failover-debts     | failover  | complete       | exclusion, orphans | 2, 1 attempt each | -DORPHANS -DL=1 -DFAILOVERS=2 -DCRASHES=1                 | quick
failover-seal      | failover  | complete       | exclusion, no gap | 2, with watches of their own | -DSTARTS -DL=2 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL | quick
failover-seal-stopped | failover | complete     | exclusion, no gap | 2, with watches of their own | -DSTARTS -DL=2 -DDOUBLE=1 -DSTOPS=1 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL | quick
failover-suspended | failover  | complete       | exclusion, no gap | 2, one beside a server | -DHOST -DSTARTS -DL=2 -DDOUBLE=1 -DSTOPS=1 -DEXTENDS=1 -DHEAL | quick
seal-never-stopped | failover  | complete       | exclusion, no gap | 2, with watches of their own | -DUNWATCHED -DSTARTS -DL=2 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL | quick
failover-restarts  | failover  | complete       | exclusion, no gap | 3, 1 attempt each | -DCLIENTS=3 -DL=2 -DFAILOVERS=2 -DCRASHES=2 -DEXTENDS=1 -DHEAL | full
failover-seal-restart | failover | complete     | exclusion, no gap | 2, with watches of their own | -DSTARTS -DL=2 -DFAILOVERS=2 -DCRASHES=1 -DEXTENDS=1 -DHEAL | full
failover-seal-beside | failover | complete      | exclusion | 2, with watches of their own | -DN=3 -DSTARTS -DL=2 -DDOUBLE=1 -DSTOPS=1             | full
failover-majority-restart | failover | complete | exclusion, no gap | 2, 1 attempt each | -DMAJORITY -DBEHIND=3 -DL=2 -DFAILOVERS=2 -DCRASHES=1 -DEXTENDS=1 -DHEAL | full
failover-majority-stopped | failover | complete | exclusion, no gap | 2, with watches of their own | -DMAJORITY -DBEHIND=3 -DSTARTS -DL=2 -DDOUBLE=1 -DSTOPS=1 -DEXTENDS=1 -DHEAL | full
failover-attempts  | failover  | complete       | exclusion, no gap | 2, 2 attempts each | -DTRIES=2 -DL=2 -DTTL=4 -DFAILOVERS=2 -DEXTENDS=1 -DHEAL -DSKEW=1 | full
failover-other-ttl | failover  | complete       | exclusion, no gap | 2, 1 attempt each | -DL=1 -DTTL=5 -DTTLX=3 -DFAILOVERS=2 -DCRASHES=1 -DEXTENDS=2 -DHEAL -DSKEW=2 | full
failover-beside-extends | failover | complete   | exclusion, no gap | 2, 1 attempt each | -DN=3 -DL=2 -DEXTENDS=1 -DHEAL                             | full
failover-beside-longer | failover | complete    | exclusion, no gap | 2, 1 attempt each | -DN=3 -DL=1 -DEXTENDS=2 -DHEAL                             | full
failover-two       | failover  | complete       | exclusion | 2, 1 attempt each         | -DN=3 -DFAILING=2 -DL=2                                    | full
quorum-less        | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DQUORUM=1                                     | quick
no-nx              | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DNO_NX                                        | quick
refusal-counted    | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DREFUSAL_COUNTED                              | quick
plain-del          | exclusion | counterexample | exclusion | 2, 2 and 1 attempts       | -DTRIES0=2 -DPLAIN_DEL -DTTL0=2 -DTTL1=2                  | quick
same-token         | exclusion | counterexample | exclusion | 2, 2 and 1 attempts       | -DTRIES0=2 -DSAME_TOKEN -DTTL0=2 -DTTL1=2                 | quick
no-elapsed         | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DNO_ELAPSED                                   | quick
elapsed-read-early | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DREAD_EARLY                                   | quick
no-drift           | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DNO_DRIFT                                     | quick
late-counted       | exclusion | counterexample | exclusion | 2, 2 and 1 attempts       | -DTRIES0=2 -DLATE_COUNTED                                 | quick
no-quarantine      | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DCRASHES=1 -DNO_QUARANTINE                    | quick
demoted-counts     | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DDEMOTIONS=1 -DDEMOTED_COUNTS                 | quick
short-quarantine   | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DCRASHES=1 -DWATCH=2                          | quick
extend-expired     | exclusion | counterexample | no gap    | 2, 1 attempt each         | -DTRIES0=1 -DEXTENDS=1 -DEXTEND_EXPIRED                   | quick
extend-shortens    | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DEXTENDS=1 -DSHORTENS -DTTL0=5 -DTTL1=3 -DTTLX=2 | quick
extend-quarantined | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DEXTENDS=1 -DCRASHES=1 -DEXTEND_BARRED -DTTL0=3 -DTTL1=4 | quick
heal-quarantined   | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DEXTENDS=1 -DHEAL -DCRASHES=1 -DHEAL_BARRED   | quick
key-lost           | exclusion | counterexample | exclusion | 2, 1 attempt each         | -DTRIES0=1 -DLOSSES=1                                     | quick
unfenced-work      | exclusion | counterexample | work      | 2, 1 attempt each         | -DTRIES0=1 -DUNFENCED_WORK                                | quick
no-fence           | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DNO_FENCE                                      | quick
paid-before-fence  | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DPAID_BEFORE_FENCE                             | quick
kill-forbidden     | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DKILL_FORBIDDEN                                | quick
debt-forgotten     | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DDEBT_FORGOTTEN                                | quick
debt-timed-early   | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DDEBT_TIMED_EARLY                              | quick
debt-without-drift | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DDRIFT_FORGOTTEN                               | quick
error-settles      | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DERROR_SETTLES                                 | quick
no-release         | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DNO_RELEASE                                    | quick
voters-released    | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DVOTERS_RELEASED                               | quick
heal-not-owed      | orphans   | counterexample | orphans   | 1, 1 attempt              | -DTRIES=1 -DHEAL_NOT_OWED                                 | quick
equal-granted      | order     | counterexample | order     | 3 attempts                | -DEQUAL_GRANTED                                           | quick
number-quorum-less | order     | counterexample | order     | 3 attempts                | -DQUORUM=1                                                | quick
stale-counted      | order     | counterexample | order     | 3 attempts                | -DSTALE_COUNTED                                           | quick
not-compared       | order     | counterexample | order     | 3 attempts                | -DNOT_COMPARED                                            | quick
counters           | order     | counterexample | order     | 3 attempts                | -DCOUNTERS                                                | quick
floor-at-once      | order     | counterexample | order     | 3 attempts                | -DCRASHES=1 -DNO_QUARANTINE                               | quick
floor-read-early   | order     | counterexample | order     | 3 attempts                | -DCRASHES=1 -DFLOOR_AT_RESTART                            | quick
no-floor           | order     | counterexample | order     | 3 attempts                | -DCRASHES=1 -DNO_FLOOR                                    | quick
floor-from-few     | order     | counterexample | order     | 3 attempts                | -DCRASHES=1 -DREADS=1                                     | quick
floor-of-unsealed  | order     | counterexample | order     | 3 attempts                | -DCRASHES=2 -DFLOOR_FROM_UNSEALED                         | quick
unsealed-counted   | order     | counterexample | order     | 3 attempts                | -DCRASHES=1 -DUNSEALED_COUNTED                            | quick
read-quorum-less   | readwrite | counterexample | readers or one writer | 2, upgrading reader, writer   | -DUPGRADE -DREAD_QUORUM=1                  | quick
writer-ignored     | readwrite | counterexample | readers or one writer | 2, downgrading writer, reader | -DDOWNGRADE -DSECOND_READS -DWRITER_IGNORED | quick
readers-ignored    | readwrite | counterexample | readers or one writer | 2, upgrading reader, writer   | -DUPGRADE -DREADERS_IGNORED                | quick
one-life           | readwrite | counterexample | readers or one writer | 3, two readers and a writer   | -DUPGRADE -DCLIENTS=3 -DTHIRD_READS -DONE_LIFE -DTTL=4 -DTTL2=2 | full
upgrade-beside     | readwrite | counterexample | readers or one writer | 2, upgrading reader, reader   | -DUPGRADE -DSECOND_READS -DUPGRADE_BESIDE  | quick
undo-drops-reader  | readwrite | counterexample | readers or one writer | 2, upgrading reader, writer   | -DUPGRADE -DUNDO_DROPS_READER              | quick
kept-until-confirmed | readwrite | counterexample | readers or one writer | 2, downgrading writer, reader | -DDOWNGRADE -DSECOND_READS -DKEPT_UNTIL_CONFIRMED | quick
two-commands       | readwrite | counterexample | readers or one writer | 2, downgrading writer, writer | -DDOWNGRADE -DTWO_COMMANDS                 | quick
downgrade-unwatched | readwrite | counterexample | readers or one writer | 2, downgrading writer, writer | -DDOWNGRADE -DCRASHES=1 -DWATCH=DRIFT      | quick
reader-only        | readwrite | counterexample | orphans               | 2, downgrading writer, writer | -DDOWNGRADE -DORDERED -DREADER_ONLY        | quick
overwrites         | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DDROP=NOT_COMPARED -DMADE=2 -DNO_JUDGE      | quick
any-order          | deployment | counterexample | end              | 2, ABC and BCD            | -DTWO_SHARED -DDROP=ANY_ORDER -DMADE=2                    | quick
opens-early        | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DDROP=OPENS_EARLY -DNO_JUDGE                | quick
no-completion      | deployment | counterexample | end              | 2 of one set              | -DCRASHES=1 -DDROP=NO_COMPLETION                          | quick
no-reset           | deployment | counterexample | end              | 2 of one set              | -DEMPTIED=1 -DANYTIME -DDROP=NO_RESET                     | quick
foreign-kept       | deployment | counterexample | end              | 2, ABC and BCD            | -DTWO_SHARED -DDROP=FOREIGN_KEPT                          | quick
resets-foreign     | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DDROP=RESETS_FOREIGN -DMADE=2 -DNO_JUDGE    | quick
resets-stale       | deployment | deep           | agreement        | 3, ABC, CDE and ABC       | -DONE_SHARED -DCLIENTS=3 -DDROP=RESETS_STALE -DMADE=2 -DNO_JUDGE | full
resets-open        | deployment | deep           | agreement        | 2, ABC and BCD            | -DTWO_SHARED -DDROP=RESETS_OPEN -DEMPTIED=1 -DANYTIME -DCUTS=1 -DNO_JUDGE | quick
keeps-id           | deployment | deep           | agreement        | 3, ABC, CDE and BDE       | -DTHREE_SETS -DCLIENTS=3 -DDROP=KEEPS_ID -DEMPTIED=1 -DEARLY -DMADE=2 -DNO_JUDGE | quick
lists-stale        | deployment | counterexample | end              | 2 of one set              | -DEMPTIED=1 -DOVER -DDROP=LISTS_STALE                     | quick
binds-early        | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DDROP=BINDS_EARLY                           | quick
listed-counted     | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DDROP=LISTED_COUNTED                        | quick
open-ignored       | deployment | counterexample | agreement after looks | 2, ABC and CDE       | -DONE_SHARED -DEMPTIED=1 -DOVER -DLOOKED -DDROP=OPEN_IGNORED -DNO_JUDGE | quick
listed-ignored     | deployment | counterexample | agreement after looks | 2, ABC and CDE       | -DONE_SHARED -DEMPTIED=1 -DOVER -DLOOKED -DDROP=LISTED_IGNORED -DNO_JUDGE | quick
size-ignored       | deployment | counterexample | agreement        | 2, ABC and ABCDE          | -DINSIDE -DDROP=SIZE_IGNORED                              | quick
blank-counted      | deployment | counterexample | agreement        | 2, ABC and BCD            | -DTWO_SHARED -DDROP=BLANK_COUNTED                         | quick
stranger-adopted   | deployment | counterexample | agreement        | 2, ABC and BCD            | -DTWO_SHARED -DDROP=STRANGER_ADOPTED                      | quick
listed-adopted     | deployment | deep           | agreement        | 2, ABC and BCD            | -DTWO_SHARED -DDROP=LISTED_ADOPTED -DEMPTIED=1 -DLISTED_ONLY -DMADE=2 -DNO_JUDGE | quick
shared-node-lost   | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DEMPTIED=1 -DOVER                           | quick
emptied-in-opening | deployment | counterexample | agreement        | 2, ABC and CDE            | -DONE_SHARED -DEMPTIED=1 -DLISTED_ONLY -DMADE=2 -DNO_JUDGE | full
other-set-joins    | deployment | counterexample | R30 to the letter | 2, ABC and BCD           | -DTWO_SHARED -DDROP=LETTER                                | quick
not-waited         | members   | deep           | quorums meet | 1 operator                | -DNO_WAIT                                                 | quick
not-sure           | members   | deep           | quorums meet | 1 operator                | -DNO_SURE -DEMPTIED=1                                     | quick
swapped            | members   | deep           | quorums meet | 2 operators               | -DSWAPS -DOPS=2                                           | quick
given-by-one       | members   | deep           | quorums meet | 1 operator                | -DGIVES_ONE -DEMPTIED=1                                   | quick
given-as-seen      | members   | deep           | quorums meet | 1 operator                | -DGIVES_STALE -DEMPTIED=1                                 | quick
given-the-oldest   | members   | deep           | quorums meet | 1 operator                | -DGIVES_OLDEST -DEMPTIED=1                                | quick
uptime-among-sealed | debut    | counterexample | exclusion | 2 of one set              | -DFLUSHES=1 -DAMONG_SEALED                                | quick
uptime-of-promoted | debut     | counterexample | exclusion | 2, ABC and CDE            | -DONE_SHARED -DFAILOVERS=1 -DOF_PROMOTED                  | quick
uptime-as-shown    | debut     | counterexample | exclusion | 2, ABC and CDE            | -DONE_SHARED -DCRASHES=1 -DNO_MARGIN                      | quick
each-for-itself    | debut     | counterexample | exclusion | 2, ABC and CDE            | -DONE_SHARED -DCRASHES=1 -DEACH_FOR_ITSELF                | quick
own-watch          | debut     | counterexample | exclusion | 2, ABC and CDE            | -DONE_SHARED -DCRASHES=1 -DOWN_WATCH                      | quick
joins-watched      | debut     | counterexample | exclusion | 3, ABC, CDE and CDE       | -DONE_SHARED -DCLIENTS=3 -DCRASHES=1 -DJOINS_WATCHED      | quick
clock-set          | debut     | counterexample | exclusion | 2, ABC and CDE            | -DONE_SHARED -DCRASHES=1 -DSTEPS=1                        | quick
shared-node-flushed | debut    | counterexample | exclusion | 2, ABC and CDE            | -DONE_SHARED -DFLUSHES=1                                  | quick
no-bound           | failover  | counterexample | exclusion | 2, 1 attempt each         | -DWAIT=MAXTTL                                              | quick
bound-alone        | failover  | counterexample | exclusion | 2, 1 attempt each         | -DWAIT=L -DTTL=5 -DL=2                                     | quick
replid-ignored     | failover  | counterexample | exclusion | 2, 1 attempt each         | -DRUN_ID_ONLY -DFAILOVERS=2                                | quick
run-id-ignored     | failover  | counterexample | exclusion | 2, 1 attempt each         | -DREPLID_ONLY -DFAILOVERS=0 -DCRASHES=1                    | quick
looked-before      | failover  | counterexample | exclusion | 2, 1 attempt each         | -DDECIDED_BEFORE -DFAILOVERS=2                             | quick
silence-ignored    | failover  | counterexample | exclusion | 2, 1 attempt each         | -DSILENCE_IGNORED -DSTOPS=1 -DL=2 -DDOUBLE=1               | quick
suspended-unnoticed | failover | counterexample | exclusion | 2, one beside a server | -DASLEEP -DHOST -DSTARTS -DSTOPS=1 -DL=2 -DDOUBLE=1          | quick
majority-by-time   | failover  | counterexample | exclusion | 2, 1 attempt each         | -DUNFOLLOWED -DMAJORITY -DBEHIND=3 -DL=5 -DDOUBLE=1        | quick
majority-returned  | failover  | counterexample | exclusion | 2, 1 attempt each         | -DRETURNS -DMAJORITY -DBEHIND=3 -DL=2                      | quick
seal-replicated    | failover  | counterexample | exclusion | 2, 1 attempt each         | -DSEAL_TRUSTED                                             | quick
seal-of-process    | failover  | counterexample | exclusion | 2, 1 attempt each         | -DSEAL_OF_PROCESS -DFAILOVERS=2                            | quick
uptime-at-failover | failover  | counterexample | exclusion | 2, 1 attempt each         | -DUPTIME                                                   | quick
seal-unwatched     | failover  | counterexample | exclusion | 2, with watches of their own | -DUNWATCHED -DSTARTS -DSTOPS=1 -DL=2 -DDOUBLE=1        | quick
seal-too-young     | failover  | counterexample | exclusion | 2, with watches of their own | -DWAIT=L -DSTARTS -DTTL=5 -DL=2                         | quick
watch-of-node      | failover  | counterexample | exclusion | 2, with watches of their own | -DWATCH_OF_NODE -DSTARTS -DSTOPS=1 -DL=2 -DDOUBLE=1 -DFAILOVERS=2 | quick
met-at-discovery   | failover  | counterexample | exclusion | 2, 1 attempt each         | -DCLOCK_OF_DISCOVERY                                       | quick
decided-at-reply   | failover  | counterexample | exclusion | 2, 1 attempt each         | -DDECIDED_AT_REPLY -DL=1 -DTTL=5 -DFAILOVERS=2 -DEXTENDS=1 | quick
extend-at-once     | failover  | counterexample | exclusion | 2, 1 attempt each         | -DEXTEND_AT_ONCE -DEXTENDS=1                               | quick
extend-by-time     | failover  | counterexample | exclusion | 2, 1 attempt each         | -DEXTEND_BY_TIME -DN=3 -DL=2 -DEXTENDS=1                   | quick
vote-of-lock       | failover  | counterexample | exclusion | 2, 1 attempt each         | -DVOTE_OF_LOCK -DN=3 -DL=1 -DEXTENDS=2                     | full
heal-at-once       | failover  | counterexample | exclusion | 2, 1 attempt each         | -DHEAL_AT_ONCE -DHEAL -DEXTENDS=1                          | quick
paid-elsewhere     | failover  | counterexample | orphans   | 2, 1 attempt each         | -DPAID_ELSEWHERE -DORPHANS                                 | quick
fenced-elsewhere   | failover  | counterexample | orphans   | 2, 1 attempt each         | -DFENCED_ELSEWHERE -DORPHANS                               | quick
settled-by-promotion | failover | counterexample | orphans  | 2, 1 attempt each         | -DSETTLED_BY_PROMOTION -DORPHANS -DL=1 -DFAILOVERS=2       | quick
bound-unknown      | failover  | counterexample | exclusion | 2, 1 attempt each         | -DL=0 -DDOUBLE=3                                           | quick
fence-lifted       | failover  | counterexample | exclusion | 2, 1 attempt each         | -DFENCE_LIFTED                                             | quick
END
}

main() {
	tools || exit
	work=$(mktemp -d) || exit
	trap 'stop; rm -rf "$work"' EXIT
	trap 'exit 130' HUP INT TERM
	version=$(spin -V | sed -n 's/Spin Version \([0-9.]*\).*/\1/p')
	case ${1:-} in
	show) show "${2:?a name of the table}"; exit ;;
	esac
	runs | if [ "${MODEL:-full}" = quick ]; then grep '|quick *$'; else cat; fi >"$work/runs"
	all
	echo
	echo "spin $version"
	echo
	{
		echo "| run | N | clients | property | states | transitions | depth | memory | seconds | result |"
		echo "|---|---|---|---|---|---|---|---|---|---|"
		cut -d '|' -f 1 "$work/runs" | while read -r name; do cat "$work/$name.row"; done
	} | tee "$work/table"
	echo
	judge
}

# tools makes spin and gcc available. It fails only if the model is required.
tools() {
	have && return
	if command -v apt-get >/dev/null; then
		if [ "$(id -u)" = 0 ]; then
			install
		elif [ "${REDMUX_REQUIRE_MODEL:-}" = 1 ] && sudo -n true 2>/dev/null; then
			install sudo -n
		fi
	fi
	have && return
	echo "NOT COVERED: the models of the rules (exclusion, failover, orphans, deployment, members, debut, order, readwrite), as spin and gcc are not both here and could not be installed."
	[ "${REDMUX_REQUIRE_MODEL:-}" != 1 ] && exit 0
	return 1
}

have() { command -v spin >/dev/null && command -v gcc >/dev/null && spin -V 2>/dev/null | grep -q '^Spin'; }

install() {
	echo "model: installing spin"
	set -- "$@" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=600
	packages="install -y --no-install-recommends spin gcc libc6-dev"
	# The lists of packages may be old or missing, and one broken source among
	# several does not matter here. If the model is required, a failed mirror is
	# asked once more.
	"$@" $packages >/dev/null 2>&1 || { "$@" update; "$@" $packages; } >/dev/null 2>&1 ||
		{ [ "${REDMUX_REQUIRE_MODEL:-}" = 1 ] && sleep 30 && { "$@" update; "$@" $packages; }; } >/dev/null 2>&1
}

# all runs what $work/runs lists, several at once. Each run leaves its row and
# its process id in $work.
all() {
	cut -d '|' -f 1 "$work/runs" >"$work/names"
	lanes=${JOBS:-2} lane=0
	while [ $lane -lt "$lanes" ]; do
		awk -v l=$lane -v n="$lanes" 'NR % n == l' "$work/names" | while read -r name; do one "$name"; done &
		lane=$((lane + 1))
	done
	wait
}

stop() {
	for file in "$work"/*.pid; do
		[ -e "$file" ] && kill "$(cat "$file")" 2>/dev/null
	done
}

# field prints a column of a run's line.
field() { runs | awk -F '|' -v name="$1" -v f="$2" '$1 == name { print $f }'; }

# one searches one model, and writes a row of the table.
one() {
	name=$1 how=$(field "$1" 3) macros=$(field "$1" 6)
	mkdir "$work/$name" && cd "$work/$name" || return
	cp "$here/$(field "$name" 2).pml" model.pml
	compile=-DCOLLAPSE arguments="-m200000 -w24"
	case $how in
	counterexample) compile=-DBFS ;;
	bits) compile=-DBITSTATE arguments="-m200000 -w28 -k2" ;;
	esac
	spin -a $(symmetry "$name") $macros model.pml >spin.out 2>&1 &&
		gcc $(optimize "$name") -w -DSAFETY -DMEMLIM=4000 $compile -o pan pan.c >>spin.out 2>&1 || { cat spin.out >&2; echo failed >out; }
	if [ ! -e out ]; then
		timeout -k 5 "$limit" ./pan $arguments >out 2>&1 &
		echo $! >"$work/$name.pid"
		wait $!
		code=$?
		rm "$work/$name.pid"
		[ "$code" = 0 ] || echo "ended with $code" >>out
	fi
	row >"$work/$name.row"
	echo "$name: $(sed 's/.*| \([^|]*\) |$/\1/' "$work/$name.row")" >&2
}

# In the other models nodes are interchangeable, in failover clients, and in
# deployment clients of one set. A counterexample is shown without that, so that
# they keep their names.
symmetry() { case $(field "$1" 2) in orphans | members) ;; *) echo -DSYMMETRY ;; esac; }

# Most searches of these models are shorter than what -O2 takes, and many than
# what -O1 takes.
optimize() {
	case $(field "$1" 2)/$(field "$1" 3) in
	debut/* | failover/* | deployment/complete) echo -O1 ;;
	deployment/* | readwrite/*) echo -O0 ;;
	*) echo -O2 ;;
	esac
}

# row converts the output of pan to a line of the table.
row() {
	nodes=$(echo "$macros" | sed -n 's/.*-DN=\([0-9]*\).*/\1/p')
	case $(field "$name" 2) in orphans) nodes=1 ;; failover) nodes=${nodes:-1} ;; esac
	case $macros in *-DINSIDE*) nodes="3, 5" ;; esac
	awk -v name="$name" -v how="$how" -v n="${nodes:-3}" -v clients="$(field "$name" 5)" -v property="$(field "$name" 4)" '
		/errors:/ { depth = $6 + 0; errors = $NF + 0; ended = 1 }
		/states, stored/ { states = $1 }
		/transitions/ { transitions = $1 }
		/total actual memory usage/ { memory = $1 }
		/pan: elapsed time/ { seconds = $4 }
		/Search not completed|search depth too small|ended with|out of memory|failed/ { cut = 1 }
		/assertion violated/ { violated = 1; split($0, at, "at depth "); steps = at[2] + 0 }
		END {
			result = "not complete"
			if (violated) result = "counterexample of " steps " steps"
			else if (ended && !cut && errors == 0) result = how == "bits" ? "bounded: bit-state, no violation" : "complete"
			printf "| %s | %s | %s | %s | %s | %s | %s | %d MB | %s | %s |\n", name, n, clients, property,
				states, transitions, depth, memory, seconds, result
		}' out
}

# judge checks whether each run ended as it should, and as the document says.
judge() {
	recorded=$(sed -n 's/^spin \([0-9.]*\).*/\1/p' "$document" 2>/dev/null | head -n 1)
	[ "$recorded" = "$version" ] || echo "states are not compared: testdata/model/results.txt has those of spin ${recorded:-(none)}"
	{ cat "$work/runs"; echo ===; cat "$work/table"; echo ===; cat "$document" 2>/dev/null; } | awk -F '|' -v same="$([ "$recorded" = "$version" ] && echo 1)" '
		function trim(s) { gsub(/^ +| +$/, "", s); return s }
		function wrong(text) { print "model: " text; bad = 1 }
		/^===$/ { part++; next }
		part == 0 { how[$1] = $3; next }
		NF < 11 { next }
		{ name = trim($2) }
		!(name in how) { next }
		part == 1 { states[name] = trim($6); result[name] = trim($11) }
		part == 2 { was[name] = trim($6); came[name] = trim($11) }
		END {
			for (name in how) {
				count++
				if (how[name] == "complete" && result[name] != "complete") wrong(name ": " result[name] ", and should be complete")
				if (how[name] == "bits" && result[name] !~ /^bounded/) wrong(name ": " result[name])
				if (how[name] ~ /^(counterexample|deep)$/ && result[name] !~ /^counterexample/)
					wrong(name ": the rule was dropped, and nothing was found: " result[name])
				if (!(name in was)) { wrong(name ": is not in testdata/model/results.txt"); continue }
				if (same && how[name] != "bits" && (states[name] != was[name] || result[name] != came[name]))
					wrong(name ": " states[name] " states, " result[name] "; testdata/model/results.txt says " was[name] ", " came[name])
			}
			if (!bad) print "model: " count " runs, all as testdata/model/results.txt says"
			exit bad
		}'
}

# show prints the counterexample of a run.
show() {
	[ -n "$(field "$1" 2)" ] || { echo "model: the table has no run $1" >&2; return 2; }
	mkdir "$work/show" && cd "$work/show" || return
	cp "$here/$(field "$1" 2).pml" model.pml || return
	macros=$(field "$1" 6) search=-DBFS
	[ "$(field "$1" 3)" = deep ] && search=-DCOLLAPSE
	spin -a $macros model.pml >/dev/null && gcc -O2 -w -DSAFETY -DMEMLIM=8000 $search -o pan pan.c || return
	timeout -k 5 "$limit" ./pan -m200000 -w24 >out 2>&1
	[ -e model.pml.trail ] || { tail -n 20 out; return 1; }
	spin -t $macros model.pml | sed -n 's/^ *\(client\|node\|server\|operator\|tick\|.*assert\)/\1/p'
}

main "$@"
