//! The command-line flags, made from the table of keys.
//!
//! Every value is taken as text: what is wrong with it is found where the other sources are checked, so that all
//! faults are told at once.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::keys::{ALL, Key, Kind, Place};

/// Which keys a set of flags has.
pub trait FlagSet {
    const PLACE: Place;
}

/// Marks the flags of every command.
#[derive(Clone, Debug)]
pub enum Global {}

/// Marks the flags of the commands that make or show a service.
#[derive(Clone, Debug)]
pub enum Service {}

impl FlagSet for Global {
    const PLACE: Place = Place::Global;
}

impl FlagSet for Service {
    const PLACE: Place = Place::Service;
}

/// The values that flags gave, list entries joined by commas.
#[derive(Clone)]
pub struct Flags<S> {
    pub given: Vec<(&'static Key, String)>,
    set: PhantomData<S>,
}

/// The flags that every command takes.
pub type GlobalFlags = Flags<Global>;

/// The flags of `serve` and `config`.
pub type ServiceFlags = Flags<Service>;

impl<S> Default for Flags<S> {
    fn default() -> Self {
        Self { given: Vec::new(), set: PhantomData }
    }
}

fn keys_of<S: FlagSet>() -> impl Iterator<Item = &'static Key> {
    ALL.into_iter().filter(|key| key.place == S::PLACE)
}

fn arg(key: &'static Key) -> Arg {
    let action = if matches!(key.kind, Kind::List(_)) { ArgAction::Append } else { ArgAction::Set };
    let heading = if key.place == Place::Global { "Global options" } else { "Service options" };
    Arg::new(key.name)
        .long(key.long())
        .value_name(value_name(key))
        .action(action)
        .global(key.place == Place::Global)
        .help(key.help())
        .help_heading(heading)
}

fn value_name(key: &Key) -> &'static str {
    match key.kind {
        Kind::Text(_) => "VALUE",
        Kind::Secret(_) => "SECRET",
        Kind::Boolean => "BOOL",
        Kind::Choice(_) => "WORD",
        Kind::Integer { .. } => "N",
        Kind::List(_) => "LIST",
    }
}

impl<S: FlagSet> Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        keys_of::<S>().fold(command, |command, key| command.arg(arg(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: FlagSet> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.given = keys_of::<S>()
            .filter_map(|key| {
                let values: Vec<&str> = matches.get_many::<String>(key.name)?.map(String::as_str).collect();
                Some((key, values.join(",")))
            })
            .collect();
        Ok(())
    }
}
