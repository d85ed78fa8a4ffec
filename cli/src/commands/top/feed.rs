//! Where `top` gets its figures: a thread asks the service, and the page is read where that does not answer.
//!
//! Rules: nobody waits here for the service, so that keys are obeyed while it is wedged; what is asked is what other
//! commands ask, one question at a time.

use super::cost::{Cost, Meter};
use super::frame::{Frame, History, Service};
use crate::failure::Failure;
use crate::service::{LATER, ServiceArgs};
use gridmux_mediator::config::{MAX_CLIENTS, MAX_TENANTS};
use gridmux_mediator::dispatch::accounts::TenantState;
use gridmux_mediator::link::TenantFacts;
use gridmux_mediator::page::{KernelSnapshot, PageFile, Snapshot};
use gridmux_mediator::settings::{Change, TenantChange};
use gridmux_mediator::supervisor::ServiceStatistics;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// How long the service may take for an answer before its page is read.
const PATIENCE: Duration = Duration::from_millis(1000);

/// What is asked.
#[derive(Debug)]
enum Question {
    /// The figures, with the tenants' kernels or without; and whether runs of our programs are to be counted.
    Look { kernels: bool, count: bool },
    /// A change, in words and as a request.
    Change(String, Change),
}

/// What came of it.
#[derive(Debug)]
enum Answer {
    Figures(Box<Result<ServiceStatistics, String>>, Cost),
    /// The outcome of a change, in words, and what the tenant's settings are then.
    Changed(Result<(String, Box<TenantFacts>), String>),
}

/// The source of frames.
#[derive(Debug)]
pub(super) struct Feed {
    run_dir: PathBuf,
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    /// When the look was begun that is under way.
    asked: Option<Instant>,
    /// The last answer of the service.
    last: Option<Box<ServiceStatistics>>,
    /// Why the service did not answer the last time.
    silent: Option<String>,
    history: History,
    frame: Option<Frame>,
    /// When the figures of the frame came, and how old they were then.
    came: (Instant, u64),
    kernels: Vec<KernelSnapshot>,
    cost: Cost,
    /// A change was asked for and has not been answered.
    is_changing: bool,
    /// What is to be said of changes that were not asked for.
    refused: Vec<String>,
}

/// The thread that asks has ended, which only a fault of this program's brings about.
#[derive(Debug)]
pub(super) struct Ended;

impl Feed {
    /// Takes the first figures, and starts the thread that asks.
    ///
    /// # Errors
    /// The service does not answer, and has left no page that can be read.
    pub(super) fn begin(service: ServiceArgs) -> Result<Self, Failure> {
        let run_dir = service.run_dir.clone();
        let (questions, asked) = channel();
        let (tell, answers) = channel();
        std::thread::Builder::new()
            .name("top".into())
            .spawn(move || serve(&service, &asked, &tell))
            .map_err(Failure::new)?;
        let mut feed = Self {
            run_dir,
            questions,
            answers,
            asked: None,
            last: None,
            silent: None,
            history: History::default(),
            frame: None,
            came: (Instant::now(), 0),
            kernels: Vec::new(),
            cost: Cost::default(),
            is_changing: false,
            refused: Vec::new(),
        };
        feed.look(false, false);
        let deadline = Instant::now() + PATIENCE;
        while feed.frame.is_none() && Instant::now() < deadline && feed.asked.is_some() {
            std::thread::sleep(Duration::from_millis(5));
            feed.take().map_err(|Ended| ended())?;
        }
        feed.read_page();
        match feed.frame {
            Some(_) => Ok(feed),
            None => {
                let why = feed.silent.unwrap_or_else(|| SILENT.to_owned());
                let hint = "start it with `gridmux serve`, or name its folder with --run-dir; as root the figures that \
                            a service left are shown too";
                Err(Failure::new(why).hint(hint))
            }
        }
    }

    /// Asks for new figures, unless that is under way.
    pub(super) fn look(&mut self, kernels: bool, count: bool) {
        if self.asked.is_none() {
            self.asked = Some(Instant::now());
            // That the thread has ended is said by what takes answers.
            let _ = self.questions.send(Question::Look { kernels, count });
        }
    }

    /// Asks for a pause or its end.
    pub(super) fn set_state(&mut self, name: &str, state: TenantState) {
        let what = format!("{name} is {state}");
        let name = name.to_owned();
        self.ask_for(what, Change::State { name, state });
    }

    /// Asks for another weight.
    pub(super) fn set_weight(&mut self, name: &str, weight: u32) {
        let change = TenantChange {
            name: name.to_owned(),
            weight: Some(weight),
            ..TenantChange::default()
        };
        let what = format!("{name} has weight {weight} until the configuration is read again");
        self.ask_for(what, Change::Tenant(change));
    }

    /// Asks for a change, unless one is under way: a service that hangs would get all of them much later.
    fn ask_for(&mut self, what: String, change: Change) {
        if self.is_changing {
            let said = "the service has not answered to the change before this one";
            return self.refused.push(said.to_owned());
        }
        self.is_changing = self.questions.send(Question::Change(what, change)).is_ok();
    }

    /// Takes what has come; returns what came of changes, in words, and whether there is a new frame.
    ///
    /// # Errors
    /// The thread that asks has ended.
    pub(super) fn take(&mut self) -> Result<(Vec<String>, bool), Ended> {
        let (mut said, mut is_new) = (std::mem::take(&mut self.refused), false);
        loop {
            match self.answers.try_recv() {
                Ok(Answer::Figures(figures, cost)) => {
                    self.asked = None;
                    self.cost = cost;
                    is_new |= self.take_figures(*figures);
                }
                Ok(Answer::Changed(outcome)) => {
                    self.is_changing = false;
                    said.push(match outcome {
                        Ok((done, facts)) => {
                            self.change(&facts);
                            done
                        }
                        Err(error) => format!("error: {error}"),
                    });
                }
                Err(TryRecvError::Empty) => return Ok((said, is_new)),
                Err(TryRecvError::Disconnected) => return Err(Ended),
            }
        }
    }

    /// Shows the settings that a tenant has now, before the next figures come.
    fn change(&mut self, facts: &TenantFacts) {
        let lines = self.frame.iter_mut().flat_map(|frame| &mut frame.tenants);
        for line in lines.filter(|line| line.name == facts.name) {
            (line.weight, line.state) = (Some(facts.weight), Some(facts.state));
        }
    }

    fn take_figures(&mut self, figures: Result<ServiceStatistics, String>) -> bool {
        match figures {
            Ok(mut answer) => {
                self.silent = None;
                self.kernels = answer
                    .kernels
                    .take()
                    .map(|kernels| kernels.reading.kernels)
                    .unwrap_or_default();
                self.show(Frame::of_answer(&answer));
                self.last = Some(Box::new(answer));
                true
            }
            Err(why) => {
                self.silent = Some(why);
                self.read_page()
            }
        }
    }

    /// Reads the page where the service does not answer; returns whether there is a new frame.
    pub(super) fn read_page(&mut self) -> bool {
        let is_late = |asked: Instant| asked.elapsed() >= PATIENCE;
        let why = match (&self.silent, self.asked.is_some_and(is_late)) {
            (Some(why), _) => why.clone(),
            (None, true) => SILENT.to_owned(),
            (None, false) => return false,
        };
        let page = PageFile::open(&self.run_dir).and_then(|page| page.read());
        match (page, &mut self.frame) {
            (Ok((_, page)), _) => {
                let page: Snapshot = page.settle(MAX_TENANTS.into(), usize::from(MAX_CLIENTS) * 2);
                self.show(Frame::of_page(&page, self.last.as_deref(), why));
                // The page does not have them.
                self.kernels.clear();
                true
            }
            // What was shown last stands, and says so.
            (Err(_), Some(frame)) => {
                let passed = u64::try_from(self.came.0.elapsed().as_millis());
                frame.age_ms = self.came.1.saturating_add(passed.unwrap_or(u64::MAX));
                frame.service = Service::Silent(why);
                true
            }
            (Err(_), None) => false,
        }
    }

    fn show(&mut self, mut frame: Frame) {
        self.history.complete(&mut frame);
        self.came = (Instant::now(), frame.age_ms);
        self.frame = Some(frame);
    }

    /// Returns the newest frame.
    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Returns the kernels that were asked for last.
    pub(super) fn kernels(&self) -> &[KernelSnapshot] {
        &self.kernels
    }

    /// Returns what our own programs cost.
    pub(super) fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// What is said of a service that listens and says nothing.
const SILENT: &str = "the service does not answer";

/// Makes the failure of a thread that has ended.
pub(super) fn ended() -> Failure {
    Failure::new("the thread that asks the service has ended; this is a fault of gridmux")
}

/// Answers questions until nobody asks any more.
fn serve(service: &ServiceArgs, questions: &Receiver<Question>, tell: &Sender<Answer>) {
    let mut meter = Meter::default();
    while let Ok(question) = questions.recv() {
        let answer = match question {
            Question::Look { kernels, count } => {
                let figures = match kernels {
                    true => service.kernels(),
                    false => service.statistics(),
                };
                let figures = figures.map_err(|failure| failure.line());
                Answer::Figures(Box::new(figures), meter.read(count))
            }
            Question::Change(what, change) => Answer::Changed(make(service, what, change)),
        };
        if tell.send(answer).is_err() {
            return;
        }
    }
}

fn make(
    service: &ServiceArgs,
    what: String,
    change: Change,
) -> Result<(String, Box<TenantFacts>), String> {
    let changed = service.change_tenant(change);
    let (tenant, host_told) = changed.map_err(|failure| failure.line())?;
    let what = match host_told {
        true => what,
        false => format!("{what}, {LATER}"),
    };
    Ok((what, Box::new(tenant)))
}
